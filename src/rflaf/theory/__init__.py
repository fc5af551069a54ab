"""The theory of the paper as numbers: effective dimension, widths, risk bounds and orders of growth.

Numbers in, numbers out. K is the Gram matrix of n rows under the kernel of an activation sigma and directions w ~ p,
and mu_1 >= mu_2 >= ... are the eigenvalues of K / n:

    K = E_p[ sigma(Xw) sigma(Xw)' ],      l(w) / p(w) = sigma(Xw)' (K + n lambda I)^-1 sigma(Xw),
    d = tr K (K + n lambda I)^-1 = sum_m mu_m / (mu_m + lambda)

A quantity that the paper states as O(.) or Omega(.) is computed with the constant one, or with a given constant: such a
number shows how the quantity grows, not how large it is.

May import `rflaf.functions` and `rflaf.errors` only.
"""

from .bounds import (
    PAPER_CONSTANT,
    Grid,
    Growth,
    RiskBound,
    algorithm_bound,
    bernstein_width,
    grid_for,
    growth_table,
    lambda_for,
    leverage_width,
    n_samples_for,
    plain_width,
    render_growth_table,
    risk_bound,
    width,
)
from .dimension import (
    CASES,
    Case,
    check_delta,
    check_eigenvalues,
    check_lambda,
    effective_dimension,
    gram_deviation,
    leverage_function,
    pool_scores,
    spectrum_of_features,
    spectrum_of_gram,
    squared_norm,
    worst_risk,
)

__all__ = [
    "CASES", "PAPER_CONSTANT", "Case", "Grid", "Growth", "RiskBound", "algorithm_bound", "bernstein_width",
    "check_delta", "check_eigenvalues", "check_lambda", "effective_dimension", "gram_deviation", "grid_for",
    "growth_table", "lambda_for", "leverage_function", "leverage_width", "n_samples_for", "plain_width",
    "pool_scores", "render_growth_table", "risk_bound", "spectrum_of_features", "spectrum_of_gram", "squared_norm",
    "width", "worst_risk",
]  # fmt: skip
