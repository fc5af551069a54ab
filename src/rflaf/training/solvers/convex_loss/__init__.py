"""Any convex loss on fixed features: the regularised risk, minimised to convergence.

    minimise over V, b    1/n sum_i w_i loss(b + z_i V, y_i) + ridge |V|^2,       n = sum_i w_i

Equation (7) of the paper for a given activation, and line 6 of Algorithm 1 under any loss. The rows enter by sums over
blocks, as everywhere. The Gram matrix of the features is factored once: in the coordinates U with V = A^-1/2 U,
A = c G + 2 ridge, the problem is as round as the curvature c of the loss is even, and L-BFGS needs tens of passes. If
it needs more, G is weighted by the curvature found on the way; if a ridge was chosen on rows held out, by the curvature
at the solution there, which leaves some six passes. With one output and few features a Newton step costs hardly more
than a pass, and six to eight steps are enough.
"""

from .by_folds import FoldedProblem, LeftOut, leave_folds_out
from .descent import RiskSolution, hides_rounding, minimise_risk, tolerance, whiten
from .objective import KeptRows, MadeRows, OneFold, PastRows, Risk, on_row_space
from .ridge_choice import RidgeChoice, choose_ridge, ridge_grid

__all__ = [
    "FoldedProblem", "KeptRows", "LeftOut", "MadeRows", "OneFold", "PastRows", "RidgeChoice", "Risk",
    "RiskSolution", "choose_ridge", "hides_rounding", "leave_folds_out", "minimise_risk",
    "on_row_space", "ridge_grid", "tolerance", "whiten",
]  # fmt: skip
