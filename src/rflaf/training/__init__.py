"""From rows to a model: Algorithm 1, refined directions, online updates, the memory plan.

May import `rflaf.model` and the rooms below it.
"""
