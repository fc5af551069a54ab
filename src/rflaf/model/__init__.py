"""The fitted model: features z(x), output weights, the sums they are solved from, and pruning.

Whatever a model can do without its training rows. May import `rflaf.functions` and `rflaf.rows`.
"""
