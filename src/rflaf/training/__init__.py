"""From rows to a model: `train` chooses between Algorithm 1 and refined directions; online updates, the memory plan.

May import `rflaf.model` and the rooms below it.
"""
