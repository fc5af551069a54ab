"""Formulas the model is made of: bases, column curves, losses, densities; compiled loops in `_kernels`.

May import `rflaf.errors` only.
"""
