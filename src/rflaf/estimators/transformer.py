"""The features alone, as a transformer."""

from __future__ import annotations

from .base import RandomFeatureEstimator


class RandomActivationFeatures(RandomFeatureEstimator):
    """Random features under an activation learned from a target, as a transformer.

    z_m(x) = q_m sigma(w_m . x + b_m): the features of `RFLAFRegressor`, which says more on each argument, for
    a linear model of your own, ``make_pipeline(RandomActivationFeatures(), Ridge())``. The activation is learned by
    regression on ``y``, so ``fit`` needs a numeric target. Outlying targets get less weight, as there.

    Parameters
    ----------
    n_components : int or "auto", default=100
        Number of components, the width S; "auto" takes the smallest width that is nearly as good as the best.
    directions : {"refined", "random"}, default="refined"
        Whether the directions are trained or stay as drawn from ``density``.
    sampling : {"plain", "leverage", "greedy"}, LeverageSampling or GreedySelection, default="plain"
        How random directions are chosen: drawn from ``density``, or from a pool by leverage scores or greedily.
    activation : {"per_component", "shared"} or SharedActivation, default="per_component"
        One activation per component, or one for all components as in the paper.
    curves : bool or "auto", default="auto"
        Whether each column of a refined model enters through a curve beside a line; "auto" takes the better.
    basis : {"bspline", "rbf", "polynomial", "relu", "cos", "tanh", ...} or Basis, default="bspline"
        Basis of the activations over (-3, 3), with 16 functions; ``BSplineBasis(64)`` has more, and the name of a
        `FixedActivation` is one function, which is not learned.
    density : {"gaussian", "student_t", "cauchy", "orthogonal", "sobol"} or Density, default="gaussian"
        Law p(w) of the directions.
    scale : bool, default=True
        Whether columns are centred and scaled inside; False takes them as they are, for random directions only.
    bandwidth : float or "auto", default="auto"
        Length scale on standardised inputs: directions are w / bandwidth with w from ``density``.
    alpha : float or "auto", default="auto"
        Penalty on directions and curves, or the ridge of random directions; "auto" takes the best on held-out rows.
    fit_intercept : bool, default=True
        Whether to fit an intercept.
    width_tolerance : float, default=0.01
        How far above the lowest error the width of ``n_components="auto"`` may lie.
    categorical_features : "auto", names, numbers or a mask of columns, default="auto"
        Columns whose numbers are codes; "auto" takes what a table says are categories. Texts are categories anyway.
    random_state : int, RandomState, Generator or None, default=None
        The same seed gives the same model, bit for bit, for any ``n_jobs``.
    n_jobs : int or None, default=None
        Number of threads; None takes as many as BLAS may use.
    memory : int or "auto", default="auto"
        Bytes that a fit, or a prediction from files, may use beside the process and the rows in memory.
    verbose : bool, default=False
        Log the steps of the fit (logger ``rflaf``), with a progress bar for long passes.
    checkpoint : path or None, default=None
        File that records the results of long passes, from which a killed fit continues.

    Attributes
    ----------
    model_ : RandomFeatureModel, the fitted model, free of scikit-learn
    activation_ : Activation, callable, with ``slope`` and ``standard_error``
    directions_, importance_ : arrays (n_features, n_components_), for raw inputs, and (n_components_,), sqrt(p/q)
    curves_ : ColumnCurves or None, curves of the columns; None if all columns are straight
    output_weights_, intercept_ : v, (n_components_,) or (n_outputs, n_components_); float or (n_outputs,)
    n_components_, alpha_, bandwidth_ : width after duplicates are merged, penalty and length scale used
    loss_ : Loss that was minimised, in the units of the target
    column_importance_, feature_importances_ : array (n_features_in_,), how much each column moves the model, as shares
        that sum to one
    trials_ : tuple of Trial, recipes tried on held-out rows, the chosen one first; empty for random directions
    selection_ : Selection or None, nested path of greedy selection with its error at every width
    leverage_, leverage_scores_, effective_dimension_ : scores of the pool and their mean; None unless by leverage
    oof_prediction_ : predictions of the training rows by models not fitted to them, NaN if never held out; not in
        model files, and None where rows are many
    cv_error_, cv_standard_error_ : mean loss of rows held out, and its standard error; likewise
    pool_ : Pool or None, directions, activation, output weights, scores and draws of the pool; not in model files
    objective_trace_, n_iter_ : objective after every step of the search, or loss of every epoch; their number
    stop_reason_, solver_remedy_ : how the fit ended, with advice; Remedy that the last linear system needed
    table_encoding_, target_encoding_ : encodings of the columns and the target of tables, or None
    n_features_in_, feature_names_in_ : number of columns, and their names if all are texts

    Examples
    --------
    >>> import numpy as np
    >>> from rflaf import RandomActivationFeatures
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 3))
    >>> RandomActivationFeatures(20, random_state=0).fit_transform(X, np.abs(X[:, 0] - X[:, 1])).shape
    (200, 20)
    """
