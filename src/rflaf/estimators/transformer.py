"""The features alone, as a transformer."""

from __future__ import annotations

from .base import RandomFeatureEstimator


class RandomActivationFeatures(RandomFeatureEstimator):
    """Random features under an activation learned from a target, as a transformer.

    z_m(x) = q_m sigma(w_m . x + b_m). The features of `RFLAFRegressor` with the same arguments, for a linear
    model of your own: ``make_pipeline(RandomActivationFeatures(), Ridge())``. The activation is learned by regression
    on ``y``, so ``fit`` needs a numeric target. Parameters and attributes as in `RFLAFRegressor`.

    >>> import numpy as np
    >>> from rflaf import RandomActivationFeatures
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 3))
    >>> RandomActivationFeatures(20, random_state=0).fit_transform(X, np.abs(X[:, 0] - X[:, 1])).shape
    (200, 20)
    """
