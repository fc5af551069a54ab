"""The features alone, as a transformer."""

from __future__ import annotations

from .base import RandomFeatureEstimator


class RandomActivationFeatures(RandomFeatureEstimator):
    """Random features under an activation learned from a target, as a transformer.

    z_m(x) = q_m sigma(w_m . x + b_m): the features of `RFLAFRegressor` with the same arguments, for a linear model of
    your own, ``make_pipeline(RandomActivationFeatures(), Ridge())``. The activation is learned by regression on ``y``,
    so ``fit`` needs a numeric target. Targets far from all others that the columns do not explain get less weight.

    Parameters
    ----------
    n_components : int or "auto", default=100
        Number of components, the width S. 300 instead of 100 lowers the error on protein from .337 to .314. "auto" is
        the smallest width whose estimated error is within ``width_tolerance`` of the lowest, up to 500, or 400 for
        refined directions. Leverage sampling merges duplicates, so ``n_components_`` may be lower.
    directions : {"refined", "random"}, default="refined"
        "refined" trains the directions from a draw of ``density``. With at most 3,000 rows, additive and
        random-direction models compete too and the best on held-out rows wins; below 50 rows one of them is
        fitted at once. "random" freezes the draw: quicker to fit, and the paper's theory applies.
    sampling : {"plain", "leverage", "greedy"}, LeverageSampling or GreedySelection, default="plain"
        How random directions are chosen: drawn from ``density``, drawn from a pool by leverage scores (Algorithm 1 of
        the paper), or chosen greedily from a pool. At S=100 on kin8nm, greedy selection has an error of .096, a plain
        draw .336. The objects take the size of the pool and more.
    activation : {"per_component", "shared"} or int, default="per_component"
        One activation per component, one for all components, or, for random directions, mixtures of that many shapes.
        One per component is a convex problem for random directions. "shared" is the paper's model, and wins where one
        shape is right (2dplanes, random directions, S=100: .055 against .058).
    curves : bool or "auto", default="auto"
        Whether each column of a refined model enters through a piecewise-linear curve beside a line. "auto" takes the
        better on held-out rows; False predicts in half the time.
    basis : {"bspline", "rbf"} or Basis, default="bspline"
        Basis of the activations over (-3, 3), in units of the spread of a projection, with 16 functions.
        ``BSplineBasis(64)`` or ``RBFBasis(64)`` has more: for wide models under a shared activation (S=1000 on protein:
        .197 with 17, .190 with 65).
    density : {"gaussian", "student_t", "cauchy", "orthogonal", "sobol"} or Density, default="gaussian"
        Law p(w) of the directions. For random directions "orthogonal" often wins (S=100, cpu_act: .049 against .061;
        fri_c2_1000_10: .39 against .54). "student_t" and "cauchy" need ``activation="shared"`` or a ``bandwidth``.
    bandwidth : float or "auto", default="auto"
        Length scale on standardised inputs: directions are w / bandwidth with w from ``density``. "auto" gives
        projections a typical spread of one, or exactly one unless ``activation="shared"`` on random directions.
        Twice that wins on some smooth targets (random, shared, S=100, fried: .113 against .119).
    alpha : float or "auto", default="auto"
        Penalty. For refined directions, on directions and curves; for random ones the ridge lambda* of the paper, for
        an activation of mean square one. "auto" takes the lowest error on held-out rows; a value saves that
        search, and 1e-3 wins on houses (5,000 rows: .171 against .173).
    fit_intercept : bool, default=True
        Whether to fit an intercept. False is for targets whose zero is known.
    width_tolerance : float, default=0.01
        How far above the lowest error the width of ``n_components="auto"`` may lie; 0.1 gives a narrower model.
    random_state : int, RandomState, Generator or None, default=None
        The same seed gives the same model, bit for bit, for any ``n_jobs``.
    n_jobs : int or None, default=None
        Number of threads; None takes as many as BLAS may use (joblib, OMP_NUM_THREADS and threadpoolctl limit it).
    memory : int or "auto", default="auto"
        Bytes that a fit, or a prediction from files, may use beside the process and the rows in memory. Fewer threads
        run if not all fit. "auto" is what the sums need and 256 MiB for the blocks of a thread.
    verbose : bool, default=False
        Log the steps of the fit (logger ``rflaf``), with a progress bar for long passes on a terminal with ``rich``.
    checkpoint : path or None, default=None
        File that records the results of long passes until the fit is done. The same fit, started again after it was
        killed, continues from there and ends at the same model.

    Attributes
    ----------
    model_ : RandomFeatureModel, the fitted model, free of scikit-learn
    activation_ : Activation, callable, with ``slope`` and ``standard_error``
    directions_ : array (n_features, n_components_), for raw inputs
    curves_ : ColumnCurves or None, curves of the columns; None if all columns are straight
    importance_ : array (n_components_,), importance weights sqrt(p/q)
    coef_ : array (n_components_,) or (n_outputs, n_components_), output weights v
    intercept_ : float or array (n_outputs,)
    n_components_ : int, width after duplicates are merged
    alpha_, bandwidth_ : float, values used
    loss_ : Loss that was minimised, in the units of the target
    column_importance_ : array (n_features,), how much each column moves the model, as shares that sum to one
    trials_ : tuple of Trial, recipes tried on held-out rows, the chosen one first; empty for random directions
    selection_ : Selection or None, nested path of greedy selection with its error at every width
    leverage_, leverage_scores_, effective_dimension_ : scores of the pool and their mean; None unless by leverage
    objective_trace_ : array, objective after every step of the search for a shared activation, or loss of every epoch
    n_iter_ : int, number of these steps or epochs, at least one
    stop_reason_ : StopReason, how the fit ended; its value is advice
    solver_remedy_ : Remedy that the last linear system needed
    table_encoding_, target_encoding_ : encodings of the columns and of the target of a table, or None
    n_features_in_ : int, number of columns
    feature_names_in_ : array (n_features_in_,), names of the columns, if all are texts

    Examples
    --------
    >>> import numpy as np
    >>> from rflaf import RandomActivationFeatures
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 3))
    >>> RandomActivationFeatures(20, random_state=0).fit_transform(X, np.abs(X[:, 0] - X[:, 1])).shape
    (200, 20)
    """
