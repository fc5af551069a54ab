"""The estimators: scikit-learn's conventions translated into a `rflaf.training.FitSpec` and back.

No numerics here. Arguments are checked by the rules in one table, data by scikit-learn; whatever fails, the
estimator is left as it was.
"""

from __future__ import annotations

import copy
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, RegressorMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from .bases import Basis, make_basis
from .bilinear import Search
from .blocks import array_source
from .errors import InvalidParameterError, OutlierWarning
from .executors import ThreadExecutor, resolve_n_jobs
from .model import RandomFeatureModel
from .outcomes import StopReason
from .parameters import check_parameters
from .spectral import Density, resolve_density
from .training import FitResult, FitSpec, train

Array = NDArray[Any]
_INTERVAL = (-3.0, 3.0)  # of projections scaled to unit spread


class _RandomFeatureEstimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """What the estimators share: arguments, fitting, and the features as a transformer."""

    def __init__(
        self,
        n_components: int | str = 100,
        *,
        directions: str = "refined",
        sampling: str = "plain",
        activation: str | int = "per_component",
        curves: bool | str = "auto",
        outliers: str = "auto",
        basis: str | Basis = "bspline",
        n_basis: int = 16,
        pool_size: int | str = "auto",
        density: str | Density = "gaussian",
        bandwidth: float | str = "auto",
        alpha: float | str = "auto",
        leverage_alpha: float | str = "auto",
        leverage_rows: int | str = "all",
        fit_intercept: bool = True,
        max_iter: int = 500,
        tol: float = 1e-4,
        tolerance: float = 0.01,
        random_state: Any = None,
        n_jobs: int | None = None,
        memory: int | str = "auto",
        verbose: bool = False,
    ) -> None:
        self.n_components = n_components
        self.directions = directions
        self.sampling = sampling
        self.activation = activation
        self.curves = curves
        self.outliers = outliers
        self.basis = basis
        self.n_basis = n_basis
        self.pool_size = pool_size
        self.density = density
        self.bandwidth = bandwidth
        self.alpha = alpha
        self.leverage_alpha = leverage_alpha
        self.leverage_rows = leverage_rows
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol
        self.tolerance = tolerance
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.memory = memory
        self.verbose = verbose

    @classmethod
    def paper(
        cls, n_components: int = 100, *, pool_size: int = 5000, basis: str | Basis = "rbf", **others: Any
    ) -> Self:
        """The paper's Algorithm 1: random directions, leverage weighted sampling from a pool, one shared activation.

        >>> RFLAFRegressor.paper(n_components=30, pool_size=1000).sampling
        'leverage'
        """
        fixed = {"directions": "random", "sampling": "leverage", "activation": "shared"}
        return cls(n_components, pool_size=pool_size, basis=basis, **{**others, **fixed})

    @classmethod
    def convex(cls, n_components: int | str = 100, **others: Any) -> Self:
        """Random directions chosen greedily from a pool, one activation a component: a convex problem, solved exactly.

        >>> RFLAFRegressor.convex(30).sampling
        'greedy'
        """
        return cls(n_components, **{**others, "directions": "random", "sampling": "greedy"})

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to rows ``X`` (n_samples, n_features), dense or sparse, and ``y`` (n_samples,) or (n_samples, n_outputs).

        ``sample_weight`` (n_samples,) multiplies the loss of each row. For random directions whole weights act as
        repeated rows; refined ones meet in other mini-batches then.
        """
        with _unchanged_on_error(self), _shown(self.verbose):
            spec = self._spec()
            X, y = validate_data(
                self, X, y,
                accept_sparse="csr", dtype=(np.float64, np.float32), multi_output=True, y_numeric=True,
                ensure_min_samples=2,
            )  # fmt: skip
            if sp.issparse(y):
                raise InvalidParameterError("y must be dense", "a sparse matrix", "Pass y.toarray().")
            weight = _check_weight(sample_weight, X)
            rng = _generator(self.random_state)
            with ThreadExecutor(resolve_n_jobs(self.n_jobs)) as executor:
                result = train(array_source(X, y, weight), spec, rng, executor)
            self._accept(result, single_output=np.ndim(y) == 1)
        if result.outliers is not None:
            warnings.warn(str(result.outliers), OutlierWarning, stacklevel=2)
        if self.stop_reason_ is StopReason.ITERATIONS:
            warnings.warn(f"the activation {self.stop_reason_.value}", ConvergenceWarning, stacklevel=2)
        return self

    def transform(self, X: Any) -> Array:
        """The random features q_m sigma(w_m . x + b_m) of rows ``X``: (n_samples, n_components_)."""
        X = self._check_rows(X)
        return self.model_.features(X)

    def _check_rows(self, X: Any) -> Any:
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=(np.float64, np.float32), reset=False)
        return sp.csr_array(X) if sp.issparse(X) else X

    def _spec(self) -> FitSpec:
        check_parameters(self)
        return FitSpec(
            n_components=None if self.n_components == "auto" else int(self.n_components),
            tolerance=float(self.tolerance),
            refined=self.directions == "refined",
            curves=None if isinstance(self.curves, str) else bool(self.curves),
            keep_outliers=self.outliers == "keep",
            sampling=self.sampling,
            per_component=self.activation != "shared",
            n_shapes=None if isinstance(self.activation, str) else int(self.activation),
            pool_size=None if self.pool_size == "auto" else int(self.pool_size),
            basis=make_basis(self.basis, self.n_basis, _INTERVAL) if isinstance(self.basis, str) else self._own_basis(),
            density=resolve_density(self.density),
            bandwidth=_number_or_none(self.bandwidth),
            alpha=_number_or_none(self.alpha),
            leverage_alpha=_number_or_none(self.leverage_alpha),
            leverage_rows=None if self.leverage_rows == "all" else int(self.leverage_rows),
            intercept=bool(self.fit_intercept),
            search=Search(max_iter=int(self.max_iter), tol=float(self.tol)),
            memory=None if self.memory == "auto" else int(self.memory),
        )

    def _own_basis(self) -> Basis:
        if isinstance(self.basis, Basis):
            return self.basis
        raise InvalidParameterError(
            "basis must be 'bspline', 'rbf' or a Basis object", self.basis, "Use basis='bspline'."
        )

    def _accept(self, result: FitResult, single_output: bool) -> None:
        self._single_output = single_output
        self._adopt(result.model)
        self.alpha_ = result.alpha
        self.bandwidth_ = result.bandwidth
        self.objective_trace_ = result.trace
        self.n_iter_ = max(1, len(result.trace) - 1)
        self.stop_reason_ = result.stop_reason
        self.column_importance_ = result.column_importance
        self.trials_ = result.trials
        self.solver_remedy_ = result.solution.factor.remedy
        self.selection_ = result.selection
        self.leverage_ = result.leverage
        self.leverage_scores_ = None if result.leverage is None else result.leverage.scores
        self.effective_dimension_ = None if result.leverage is None else result.leverage.effective_dimension

    def _adopt(self, model: RandomFeatureModel) -> None:
        single = self._single_output
        self.model_ = model
        self.activation_ = model.activation
        self.curves_ = model.curves
        self.directions_ = model.directions.W
        self.importance_ = model.directions.importance
        self.coef_ = model.v[:, 0] if single else model.v.T
        self.intercept_ = float(model.intercept[0]) if single else model.intercept
        self.n_components_ = model.n_components

    @property
    def _n_features_out(self) -> int:
        return int(self.n_components_)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class RFLAFRegressor(RegressorMixin, _RandomFeatureEstimator):
    """Regression by small models of random directions and learned activations.

    f(x) = b + sum_m q_m v_m sigma_m(u_m(x)),    sigma_m(z) = sum_i a_mi B_i(z),    u_m(x) = b_m + w_m . x + curves

    By default directions, column curves and activations are trained together, and what a user would have to tune is
    chosen on rows held out inside ``fit`` (`directions="refined"`). `RFLAFRegressor.convex` keeps random directions,
    chosen from a pool, and solves one convex problem; `RFLAFRegressor.paper` is Algorithm 1 of the paper. Inputs are
    centred and scaled inside.

    Parameters
    ----------
    n_components : int or "auto", default=100
        Width S: number of components. Under leverage sampling duplicates are merged, so the fitted width
        ``n_components_`` may be lower. "auto" is the smallest width whose estimated error is within ``tolerance`` of
        the lowest: by cross-validation on the path of greedy selection, up to 500; on the rows held out for refined
        directions, up to 400.
    directions : {"refined", "random"}, default="refined"
        Train the directions, from a draw of ``density``; or draw and freeze them. With fewer than 200 rows none can be
        held out, and up to 3,000 rows random directions are tried too: where they do better, the model is that of
        ``RFLAFRegressor.convex`` or the paper's, of at most 100 components and a quarter as many as rows.
    sampling : {"plain", "leverage", "greedy"}, default="plain"
        For random directions: draw them from p(w); or from a pool of ``pool_size`` of them in proportion to their ridge
        leverage scores (Algorithm 1 of the paper); or choose from such a pool the components that lower the error most,
        one after the other.
    activation : {"per_component", "shared"} or int, default="per_component"
        One learned activation a component, one for all, or, for random directions, mixtures of a number of learned
        shapes. For random directions one a component is a convex problem, solved at once, with a penalty on the second
        differences of each activation.
    curves : bool or "auto", default="auto"
        Whether columns of a refined model bend: each enters a component through a line and a piecewise-linear curve.
        "auto" takes what does better on the rows held out.
    outliers : {"auto", "keep"}, default="auto"
        Targets of a refined model that lie far from all others and that the columns do not explain weigh less, with a
        warning; "keep" trusts every target.
    basis : {"bspline", "rbf"} or Basis, default="bspline"
        Basis of the activation over (-3, 3) in units of the typical spread of a projection.
    n_basis : int, default=16
        Number of basis functions; not used where ``basis`` is an object.
    pool_size : int or "auto", default="auto"
        Size of the pool to choose from; "auto" is ten times the width, between 1,000 and 5,000, under leverage
        sampling, and 3,000, or twice the width if that is more, under greedy selection.
    density : {"gaussian", "student_t", "cauchy", "orthogonal", "sobol"} or Density, default="gaussian"
        Law p(w) of the directions.
    bandwidth : float or "auto", default="auto"
        Length scale on standardised inputs: directions are w / bandwidth with w from ``density``. "auto" gives
        projections a typical spread of one, and exactly one where every component has an activation of its own.
    alpha : float or "auto", default="auto"
        Penalty: of refined models on directions and curves, chosen on rows held out; else, and below 200 rows, the
        ridge parameter (lambda* of the paper), for an activation of mean square one, chosen by its leave-one-out error.
    leverage_alpha : float or "auto", default="auto"
        lambda of the leverage scores; "auto" is 1 / sqrt(n_samples).
    leverage_rows : int or "all", default="all"
        Rows the leverage scores are computed from; for a sample, ``leverage_.relative_error`` estimates their error.
    fit_intercept : bool, default=True
    max_iter : int, default=500
        Most steps of the search for the activation.
    tol : float, default=1e-4
        Relative fall of the objective that ends that search.
    tolerance : float, default=0.01
        How far above the lowest error on the path the width chosen by ``n_components="auto"`` may be.
    random_state : int, RandomState, Generator or None, default=None
        The same seed gives the same model, bit for bit, for any ``n_jobs``.
    n_jobs : int or None, default=None
        Threads; None takes as many as BLAS is allowed (so it follows joblib, OMP_NUM_THREADS and threadpoolctl).
    memory : int or "auto", default="auto"
        Bytes the blocks and sums of one thread may take; "auto" is what the sums of this width need, and 256 MiB
        for the blocks.
    verbose : bool, default=False
        Log the lines of the algorithm as they run (logger ``rflaf``).

    Attributes
    ----------
    model_ : RandomFeatureModel
        The fitted model, free of scikit-learn: ``decision``, ``features``, ``gradient``, ``deviation``, ``prune``.
    activation_ : Activation
        The learned activation, callable, with ``slope`` and ``standard_error``.
    directions_ : (n_features, n_components_), for raw inputs
    curves_ : ColumnCurves, or None where no column bends
    column_importance_ : (n_features,), how much every column moves the model, as shares that sum to one
    trials_ : what was tried on the rows held out, the chosen recipe first; empty for random directions
    importance_ : (n_components_,), sqrt(p/q)
    coef_ : (n_components_,) or (n_outputs, n_components_), the output weights v
    intercept_ : float or (n_outputs,)
    alpha_, bandwidth_ : the values used
    n_components_ : width after merging duplicates
    leverage_, leverage_scores_, effective_dimension_ : of the pool; None unless sampling is by leverage
    selection_ : Selection, the nested path of greedy selection with its error at every width; else None
    objective_trace_ : the objective after every step of the search for a shared activation, which never rises; the
        mean loss of every epoch of refined directions
    n_iter_ : number of those steps or epochs, at least one
    stop_reason_ : StopReason, whose value is advice
    solver_remedy_ : Remedy, what it took to solve the last system
    n_features_in_, feature_names_in_ : as everywhere in scikit-learn

    Examples
    --------
    >>> import numpy as np
    >>> from rflaf import RFLAFRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((500, 3))
    >>> y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2
    >>> model = RFLAFRegressor(n_components=50, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.95
    True
    """

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """f at rows ``X``: (n_samples,) or (n_samples, n_outputs), in the dtype of ``X``.

        With ``return_std``, also the standard deviation of a new observation at each row, of the same shape: the noise,
        estimated on rows that were not fitted, and the posterior of the output weights.
        """
        X = self._check_rows(X)
        answers = [self.model_.decision(X, self.n_jobs)]
        if return_std:
            answers.append(self.model_.deviation(X))
        shaped = tuple(answer[:, 0] if self._single_output else answer for answer in answers)
        return shaped if return_std else shaped[0]

    def prune(self, n_components: int) -> Self:
        """A fitted copy of ``n_components`` components, refitted from the sums of this fit, without data.

        The components kept are nested: those of a narrower copy are among those of a wider one.
        """
        check_is_fitted(self)
        pruned = copy.copy(self)
        pruned._adopt(self.model_.prune(n_components))
        return pruned


class RandomActivationFeatures(_RandomFeatureEstimator):
    """Random features under an activation learned from a target, as a transformer.

    z_m(x) = q_m sigma(w_m . x + b_m). The features of `RFLAFRegressor` with the same arguments, for a linear
    model of your own: ``make_pipeline(RandomActivationFeatures(), Ridge())``. The activation is learned by regression
    on ``y``, so ``fit`` needs a numeric target. Parameters and attributes as in `RFLAFRegressor`.

    >>> import numpy as np
    >>> from rflaf import RandomActivationFeatures
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 3))
    >>> RandomActivationFeatures(20, random_state=0).fit_transform(X, np.abs(X[:, 0])).shape
    (200, 20)
    """


def _number_or_none(value: Any) -> float | None:
    return None if value == "auto" else float(value)


def _check_weight(sample_weight: ArrayLike | None, X: Any) -> Array | None:
    if sample_weight is None:
        return None
    if not np.any(np.asarray(sample_weight)):
        raise InvalidParameterError(
            "sample_weight must have a positive entry", "zeros only", "Drop sample_weight to weigh all rows alike."
        )
    weight: Array = _check_sample_weight(sample_weight, X, dtype=X.dtype, ensure_non_negative=True)
    return weight


def _generator(random_state: Any) -> np.random.Generator:
    if isinstance(random_state, np.random.Generator):
        return random_state
    return np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))


@contextmanager
def _unchanged_on_error(estimator: Any) -> Iterator[None]:
    """A fit that fails leaves the estimator as it was: unfitted, or fitted as before."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise


@contextmanager
def _shown(verbose: bool) -> Iterator[None]:
    """Show the log of the package on standard error while a verbose fit runs."""
    if not verbose:
        yield
        return
    logger, handler = logging.getLogger("rflaf"), logging.StreamHandler()
    handler.setFormatter(logging.Formatter("[rflaf] %(message)s"))
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
