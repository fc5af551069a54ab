"""Regression."""

from __future__ import annotations

import copy
from typing import Any, Self

from numpy.typing import ArrayLike
from sklearn.base import (
    RegressorMixin,
)
from sklearn.utils.validation import check_is_fitted

from rflaf.errors import Array, InvalidParameterError
from rflaf.functions.bases import Basis
from rflaf.functions.densities import Density
from rflaf.functions.losses import Huber, Loss, Pinball, Poisson, Squared
from rflaf.rows.files import is_files
from rflaf.rows.inputs import is_frame

from .base import RandomFeatureEstimator
from .parameters import resolve_loss


class RFLAFRegressor(RegressorMixin, RandomFeatureEstimator):
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
        the lowest: by cross-validation on the path of greedy selection, up to 500; on rows held out for other random
        directions, up to 500, under a shared activation, and for refined ones, up to 400. `rflaf.plan` tells it, and
        what theory asks for, before anything is fitted.
    loss : {"squared", "huber", "quantile", "poisson"} or Loss, default="squared"
        What the model predicts: the mean; a mean that outliers do not move; a quantile; the mean of counts. "huber"
        takes residuals beyond 1.35 robust standard deviations of a first fit for outliers; "quantile" is the pinball
        loss, rounded within a hundredth of the standard deviation of ``y``. A `rflaf.functions.losses.Loss` object is
        used as
        it is.
    quantile : float, default=0.5
        Which one, for ``loss="quantile"``.
    directions : {"refined", "random"}, default="refined"
        Train the directions, from a draw of ``density``; or draw and freeze them. Up to 3,000 rows directions that no
        target had a say in are tried too: the columns themselves, and the columns and random directions. Where they do
        better on rows held out, and below 50 rows, of which none can be held out, the model is theirs: with one column
        a component it has as many components as columns.
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
        sampling, and forty times, between 6,000 and 12,000, under greedy selection: at least twice the width.
    density : {"gaussian", "student_t", "cauchy", "orthogonal", "sobol"} or Density, default="gaussian"
        Law p(w) of the directions.
    bandwidth : float or "auto", default="auto"
        Length scale on standardised inputs: directions are w / bandwidth with w from ``density``. "auto" gives
        projections a typical spread of one, and exactly one where every component has an activation of its own.
    alpha : float or "auto", default="auto"
        Penalty: of refined models on directions and curves, chosen on rows held out; else, and below 50 rows, the
        ridge parameter (lambda* of the paper), for an activation of mean square one, chosen by the error
        on rows left out.
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
    half_life : float or None, default=None
        For drifting data: in `partial_fit` a row weighs 2^(-k / half_life) once k rows have come after it. None forgets
        nothing. `fit` weighs all rows alike.
    random_state : int, RandomState, Generator or None, default=None
        The same seed gives the same model, bit for bit, for any ``n_jobs``.
    n_jobs : int or None, default=None
        Threads; None takes as many as BLAS is allowed (so it follows joblib, OMP_NUM_THREADS and threadpoolctl).
    memory : int or "auto", default="auto"
        Bytes a fit may take beside the process as it is and rows that are in memory already: blocks, sums, samples of
        rows, what is read ahead and what is kept between passes; also those of a prediction from files, beside its
        answer. Fewer threads work where not all fit. "auto" is what the sums of this width need, and 256 MiB for the
        blocks of a thread.
    verbose : bool, default=False
        Log the lines of the algorithm as they run (logger ``rflaf``); on a terminal with ``rich`` a long pass over the
        rows has a progress bar, also that of a prediction from files.
    checkpoint : path or None, default=None
        File that the results of long passes are recorded in, removed when the fit is done. The same fit started again
        after it was killed goes on from there and ends at the same model (see `rflaf.rows.checkpoint`).

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
    loss_ : the loss that was minimised, in the units of ``y``
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

    def __init__(
        self,
        n_components: int | str = 100,
        *,
        loss: str | Loss = "squared",
        quantile: float = 0.5,
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
        half_life: float | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        memory: int | str = "auto",
        verbose: bool = False,
        checkpoint: Any = None,
    ) -> None:
        super().__init__(
            n_components,
            directions=directions,
            sampling=sampling,
            activation=activation,
            curves=curves,
            outliers=outliers,
            basis=basis,
            n_basis=n_basis,
            pool_size=pool_size,
            density=density,
            bandwidth=bandwidth,
            alpha=alpha,
            leverage_alpha=leverage_alpha,
            leverage_rows=leverage_rows,
            fit_intercept=fit_intercept,
            max_iter=max_iter,
            tol=tol,
            tolerance=tolerance,
            half_life=half_life,
            random_state=random_state,
            n_jobs=n_jobs,
            memory=memory,
            verbose=verbose,
            checkpoint=checkpoint,
        )
        self.loss = loss
        self.quantile = quantile

    def _loss(self) -> Loss:
        named = {"squared": Squared(), "huber": Huber(), "quantile": Pinball(self.quantile), "poisson": Poisson()}
        return resolve_loss(self.loss, named, self.directions == "refined")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = self.loss == "poisson" or isinstance(self.loss, Poisson)
        return tags

    def partial_fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Learn from more rows. The first call learns everything from its rows, later ones only the output weights.

        Under the squared loss the sums of the last layer go on: after any chunks, also after `fit`, the model is the
        ridge on all rows seen, with directions, activations and ridge as the first chunk set them. Make that one large.
        Under other losses what earlier rows said is kept as their curvature around the solution (see
        `rflaf.training.online`), and after `fit`, which keeps none, they are taken to have been like the first new
        ones.
        With ``half_life`` rows fade as others come after them, in the order of arrays, files or partitions.
        """
        with self._fitting() as fit:
            first = not hasattr(self, "model_")
            spec = self._spec()
            source, single_output = self._rows(fit, X, y, sample_weight, spec.loss if first else self.loss_, first)
            if first:
                result = self._train(source, spec, fit.begin)
                self._accept(result, single_output)
            else:
                self._check_outputs(source.n_outputs, single_output)
            self._carry_on(source, first, fit.begin)
        if first:
            self._warn(result)
        return self

    def _check_outputs(self, n_outputs: int, single_output: bool) -> None:
        """Refuse targets that are not shaped like those of the first rows."""
        if (n_outputs, single_output) != (self.model_.n_outputs, self._single_output):
            shape = "(n_samples,)" if self._single_output else f"(n_samples, {self.model_.n_outputs})"
            raise InvalidParameterError(
                f"y must have as many outputs as the first rows, shape {shape}", n_outputs, "Call fit to begin anew."
            )

    def predict(self, X: Any, return_std: bool = False, *, out: Any = None) -> Any:
        """The mean of y at rows ``X``, or its quantile: (n_samples,) or (n_samples, n_outputs), in the dtype of ``X``.

        With ``return_std``, under the squared loss, also the standard deviation of a new observation at each row, of
        the same shape: the noise, estimated on rows that were not fitted, and the posterior of the output weights.

        ``out`` is an array to write into, a pair of them with ``return_std``: a memory map where the predictions of
        rows in files are more than fit in memory.
        """
        if not return_std:
            return self._by_rows(X, self._mean, out)
        check_is_fitted(self)
        self._need_last_layer("return_std=True")
        of_mean, of_deviation = (None, None) if out is None else out
        return self._by_rows(X, self._mean, of_mean), self._by_rows(X, self._deviation, of_deviation)

    def _mean(self, rows: Any) -> Array:
        """Return the prediction at validated rows, shaped like the targets."""
        mean = self.loss_.mean(self.model_.decision(rows, self.n_jobs))
        return mean[:, 0] if self._single_output else mean

    def _deviation(self, rows: Any) -> Array:
        """Return the standard deviation of a new observation at validated rows, shaped like the targets."""
        deviation = self.model_.deviation(rows)
        return deviation[:, 0] if self._single_output else deviation

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The coefficient of determination R^2 of the predictions at rows ``X``, which may be in files."""
        if is_files(X) or is_frame(X):
            from sklearn.metrics import r2_score  # slow to import, and only needed here

            y, answers, sample_weight = self._scored(X, y, sample_weight, self._mean, labels=False)
            return float(r2_score(y, answers, sample_weight=sample_weight))
        return float(super().score(X, y, sample_weight))

    def prune(self, n_components: int) -> Self:
        """A fitted copy of ``n_components`` components, refitted from the sums of this fit, without data.

        The components kept are nested: those of a narrower copy are among those of a wider one.
        """
        check_is_fitted(self)
        self._need_last_layer("prune")
        pruned = copy.copy(self)
        pruned._adopt(self.model_.prune(n_components))
        return pruned

    def _need_last_layer(self, what: str) -> None:
        if self.model_.last_layer is None:
            raise InvalidParameterError(
                f"{what} needs the sums of a fit under the squared loss", self.loss, "Fit with loss='squared'."
            )
