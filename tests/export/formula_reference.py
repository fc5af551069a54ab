"""The slow reference of the exports: a formula evaluated step by step."""

import numpy as np

from rflaf.export.formula import Formula, Head, Link
from rflaf.functions._kernels.curves import FARTHEST
from rflaf.functions.losses import HIGHEST_LOGARITHM


def evaluate(formula: Formula, X):
    """Evaluate the formula, (n_rows, n_answers): the reference of the exports."""
    rows = np.asarray(X, formula.dtype) - formula.centre
    u = formula.bias + rows[:, formula.linear] @ formula.W
    for c, column in enumerate(formula.columns):
        at = slice(formula.start[c], formula.start[c + 1])
        u = u + _interpolate(rows[:, column], formula.nodes[at], formula.rest[at], formula.gaps[at], formula.H[at])
    z = _look_up(u, formula)
    return z * formula.importance if formula.head is None else _answer(z, formula.head)


def _interpolate(x, nodes, rest, gaps, H):
    k = np.sum(x[:, None] - nodes[1:-1] >= rest[1:-1], axis=1)
    low, high = np.where(k == 0, -FARTHEST, 0), np.where(k == nodes.size - 2, FARTHEST, 1)
    share = np.clip((x - nodes[k] - rest[k]) * gaps[k], low, high).astype(H.dtype)[:, None]
    return (1 - share) * H[k] + share * H[k + 1]


def _look_up(u, formula: Formula):
    low, high = -formula.middle, formula.n_cells - 1 - formula.middle
    u = np.clip(u, low - 0.5, high + 0.5)
    k = np.clip(np.floor(u + 0.5), low, high)
    t = u - k
    m = np.arange(formula.n_components) % formula.table.shape[0]
    c = formula.table[m, k.astype(np.intp) + formula.middle]
    return np.asarray(c[..., 0] + t * (c[..., 1] + t * (c[..., 2] + t * c[..., 3])))


def _answer(z, head: Head):
    f = z @ head.weights + head.intercept
    if head.classes is not None and f.shape[1] == 1:
        f = np.hstack([-f, f])
    if head.link is Link.EXP:
        return np.exp(np.minimum(f, HIGHEST_LOGARITHM))
    if head.link is Link.SIGMOID:
        return 1 / (1 + np.exp(-f))
    if head.link is Link.SOFTMAX:
        odds = np.exp(f - f.max(axis=1, keepdims=True))
        return odds / odds.sum(axis=1, keepdims=True)
    return f
