"""The theory of the paper as numbers: effective dimension, widths, risk bounds and orders of growth.

Numbers in, numbers out. K is the Gram matrix of n rows under the kernel of an activation sigma and directions w ~ p,
and mu_1 >= mu_2 >= ... are the eigenvalues of K / n:

    K = E_p[ sigma(Xw) sigma(Xw)' ],      l(w) / p(w) = sigma(Xw)' (K + n lambda I)^-1 sigma(Xw),
    d = tr K (K + n lambda I)^-1 = sum_m mu_m / (mu_m + lambda)

`RBFKernel` is K in closed form for Gaussian directions and an RBF basis, and `LeverageDensity` draws from l itself.

A quantity that the paper states as O(.) or Omega(.) is computed with the constant one, or with a given constant: such a
number shows how the quantity grows, not how large it is.

May import `rflaf.functions` and `rflaf.errors` only.
"""

from .bounds import (
    Grid,
    Growth,
    RiskBound,
    algorithm_bound,
    grid_for,
    growth_table,
    lambda_for,
    n_samples_for,
    render_growth_table,
    risk_bound,
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
from .kernels import KernelRidgeLimit, RBFKernel, kernel_of, kernel_ridge_limit
from .lemmas import (
    Cost,
    TailBound,
    activation_radius,
    complexity_table,
    dimension_bound,
    generalisation_gap,
    rademacher_bound,
    render_complexity_table,
    tail_bound,
)
from .sampling import LeverageDensity
from .widths import (
    CLAIMS,
    PAPER_CONSTANT,
    AlgorithmWidths,
    Claim,
    algorithm_widths,
    bernstein_width,
    leverage_advice,
    leverage_width,
    one_sided_width,
    plain_width,
    width,
    width_for,
)

__all__ = [
    "CASES", "CLAIMS", "PAPER_CONSTANT", "AlgorithmWidths", "Case", "Claim", "Cost", "Grid", "Growth",
    "KernelRidgeLimit", "LeverageDensity", "RBFKernel", "RiskBound", "TailBound", "activation_radius",
    "algorithm_bound", "algorithm_widths", "bernstein_width", "check_delta", "check_eigenvalues", "check_lambda",
    "complexity_table", "dimension_bound", "effective_dimension", "generalisation_gap", "gram_deviation", "grid_for",
    "growth_table", "kernel_of", "kernel_ridge_limit", "lambda_for", "leverage_advice", "leverage_function",
    "leverage_width", "n_samples_for", "one_sided_width", "plain_width", "pool_scores", "rademacher_bound",
    "render_complexity_table", "render_growth_table", "risk_bound", "spectrum_of_features", "spectrum_of_gram",
    "squared_norm", "tail_bound", "width", "width_for", "worst_risk",
]  # fmt: skip
