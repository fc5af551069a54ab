"""Regression."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted

from rflaf.errors import Array, InvalidParameterError
from rflaf.functions.bases import Basis
from rflaf.functions.densities import Density
from rflaf.functions.losses import Gamma, Huber, Loss, Pinball, Poisson, Quantiles, Squared, Tweedie
from rflaf.rows.files import is_files
from rflaf.rows.inputs import is_frame
from rflaf.training.calibration import SPREAD_MEMORY, bands_of_one_width, error_bands
from rflaf.training.final_fit import FitResult

from .base import RandomFeatureEstimator
from .choices import ActivationChoice, Sampling
from .intervals import PredictsIntervals, uncalibrated
from .limits import refuse_new_weights
from .metrics import share_saved
from .offsets import (
    deviation_with_offset,
    fit_beside,
    offset_of,
    refuse_out_beside_offset,
    refuse_without_offset,
    with_offset,
    without_offset,
)
from .parameters import check_value, resolve_loss
from .retired import accept_retired

_POSITIVE = ("poisson", "gamma", "tweedie")  # losses of targets that are not negative


class RFLAFRegressor(RegressorMixin, PredictsIntervals, RandomFeatureEstimator):
    """Regression by small models of random directions and learned activations.

    f(x) = b + sum_m q_m v_m sigma_m(u_m(x)),    sigma_m(z) = sum_i a_mi B_i(z),    u_m(x) = b_m + w_m . x + curves

    By default directions, column curves and activations are trained together, and all choices are made on rows held out
    inside ``fit``. `RFLAFRegressor.convex` chooses random directions from a pool and solves one convex problem;
    `RFLAFRegressor.paper` is Algorithm 1 of the paper. Inputs are centred and scaled inside unless
    ``scale=False``.

    Parameters
    ----------
    n_components : int or "auto", default=100
        Number of components, the width S. 300 instead of 100 lowers the error on protein from .337 to .314. "auto" is
        the smallest width whose estimated error is within ``width_tolerance`` of the lowest, up to 500 (refined: 400).
    loss : {"squared", "huber", "quantile", "poisson", "gamma", "tweedie"} or Loss, default="squared"
        Predict the mean, a mean that outliers do not move, a quantile, the mean of counts, of positive amounts, or of
        amounts with zeros: ``Tweedie(power)``, 1.5 by name. "squared" on refined
        directions gives less weight, with a warning, to outlying targets that the columns do not explain. "huber" takes
        residuals beyond 1.35 robust standard deviations of a first fit for outliers. "quantile" is the pinball loss,
        rounded within .01 of the deviation of ``y``. A `Loss` object acts as it is: ``Squared()`` trusts every target.
    quantile : float or rising list of float, default=0.5
        Quantile to predict under ``loss="quantile"``; several are predicted by one model, in order for every row.
    directions : {"refined", "random"}, default="refined"
        "refined" trains the directions from a draw of ``density``. With at most 3,000 rows, additive and
        random-direction models compete too and the best on held-out rows wins; below 50 rows one of them is
        fitted at once. "random" freezes the draw: quicker to fit, and the paper's theory applies.
    sampling : {"plain", "leverage", "greedy"}, LeverageSampling or GreedySelection, default="plain"
        How random directions are chosen: drawn from ``density``, drawn from a pool by leverage scores (Algorithm 1 of
        the paper), or chosen greedily from a pool. At S=100 on kin8nm, greedy selection has an error of .096, a plain
        draw .336. The objects take the size of the pool and more.
    activation : {"per_component", "shared"} or SharedActivation, default="per_component"
        One activation per component, a convex problem for random directions, or one for all components: the paper's
        model, which wins where one shape is right (2dplanes, random directions, S=100: .055 against .058).
    curves : bool or "auto", default="auto"
        Whether each column of a refined model enters through a piecewise-linear curve beside a line. "auto" takes the
        better on held-out rows; False predicts in half the time.
    basis : {"bspline", "rbf", "polynomial", "relu", "cos", "tanh", ...} or Basis, default="bspline"
        Basis of the activations over (-3, 3), in units of the spread of a projection, with 16 functions. The name of a
        `FixedActivation`, such as "relu", is one function: nothing is learned but the output weights.
        ``BSplineBasis(64)`` or ``RBFBasis(64)`` has more: for wide models under a shared activation (S=1000 on protein:
        .197 with 17, .190 with 65).
    density : {"gaussian", "student_t", "cauchy", "orthogonal", "sobol"} or Density, default="gaussian"
        Law p(w) of the directions. For random directions "orthogonal" often wins (S=100, cpu_act: .049 against .061;
        fri_c2_1000_10: .39 against .54). "student_t" and "cauchy" need ``activation="shared"`` or a ``bandwidth``.
    scale : bool, default=True
        Whether columns are centred and scaled inside, to deviation one, or to distance one of a column's two values.
        False takes them as they are, for random directions only: the paper's setting.
    bandwidth : float or "auto", default="auto"
        Length scale on standardised inputs: directions are w / bandwidth with w from ``density``. "auto" gives
        projections a typical spread of one, or exactly one unless ``activation="shared"`` on random directions.
        Without ``scale`` the spread counts from zero: the root mean square.
        Twice that wins on some smooth targets (random, shared, S=100, fried: .113 against .119).
    alpha : float or "auto", default="auto"
        Penalty. For refined directions, on directions and curves; for random ones the ridge lambda* of the paper, for
        an activation of mean square one. "auto" takes the lowest error on held-out rows; a value saves that search.
    fit_intercept : bool, default=True
        Whether to fit an intercept. False is for targets whose zero is known.
    width_tolerance : float, default=0.01
        How far above the lowest error the width of ``n_components="auto"`` may lie; 0.1 gives a narrower model.
    categorical_features : "auto", names, numbers or a mask of columns, default="auto"
        Columns whose numbers are codes; "auto" takes what a table says are categories. Texts are categories anyway.
    monotone : dict from columns to 1 or -1, or None, default=None
        Columns that the prediction must never fall in (1), or never rise in (-1), all others held: true everywhere, to
        rounding, not only at the rows. Columns of numbers, by name or number; for one output and refined directions.
    interactions : None, "none" or list of pairs of columns, default=None
        Columns that may act together: any (None); none, so that f is a sum of functions of single columns; or those of
        each pair given (or larger set), beside such a sum. A model that can be read, for refined directions.
    random_state : int, RandomState, Generator or None, default=None
        The same seed gives the same model, bit for bit, for any ``n_jobs``.
    n_jobs : int or None, default=None
        Number of threads; None takes as many as BLAS may use (joblib, OMP_NUM_THREADS and threadpoolctl limit it).
    memory : int or "auto", default="auto"
        Bytes that a fit, or a prediction from files, may use beside the process and the rows in memory. Fewer threads
        run if not all fit. "auto" is what the sums need and 256 MiB for the blocks of a thread. With less than 64 MiB
        intervals have one width for all rows.
    verbose : bool, default=False
        Log the steps of the fit (logger ``rflaf``), with a progress bar for long passes on a terminal with ``rich``.
    checkpoint : path or None, default=None
        File that records the results of long passes until the fit is done. The same fit, started again after it was
        killed, continues from there and ends at the same model.

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
    >>> from rflaf import RFLAFRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((500, 3))
    >>> y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2
    >>> model = RFLAFRegressor(n_components=50, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.95
    True
    """

    __metadata_request__partial_fit = {"half_life": UNUSED}  # noqa: RUF012  scikit-learn wants a dictionary
    __metadata_request__predict = {"out": UNUSED}  # noqa: RUF012

    @accept_retired
    def __init__(
        self,
        n_components: int | str = 100,
        *,
        loss: str | Loss = "squared",
        quantile: float | Sequence[float] = 0.5,
        directions: str = "refined",
        sampling: Sampling = "plain",
        activation: ActivationChoice = "per_component",
        curves: bool | str = "auto",
        basis: str | Basis = "bspline",
        density: str | Density = "gaussian",
        scale: bool = True,
        bandwidth: float | str = "auto",
        alpha: float | str = "auto",
        fit_intercept: bool = True,
        width_tolerance: float = 0.01,
        categorical_features: Any = "auto",
        monotone: Any = None,
        interactions: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        memory: int | str = "auto",
        verbose: bool = False,
        checkpoint: Any = None,
    ) -> None:
        self._store(locals())

    def _loss(self) -> Loss:
        several = np.ndim(self.quantile) == 1
        named: dict[str, Loss] = {
            "squared": Squared(),
            "huber": Huber(),
            "quantile": Quantiles(tuple(self.quantile)) if several else Pinball(self.quantile),
            "poisson": Poisson(),
            "gamma": Gamma(),
            "tweedie": Tweedie(),
        }
        return resolve_loss(self.loss, named)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        known = isinstance(self.loss, Loss)  # what is neither is refused by fit
        tags.target_tags.positive_only = self.loss.least >= 0 if known else self.loss in _POSITIVE
        return tags

    @property
    def _keeps_outliers(self) -> bool:
        return isinstance(self.loss, Loss)

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: ArrayLike | None = None,
        *,
        groups: Any = None,
        time: Any = None,
        cv: Any = None,
        offset: ArrayLike | str | None = None,
    ) -> Self:
        """Fit to rows ``X`` (n_samples, n_features), dense or sparse, and ``y`` (n_samples,) or (n_samples, n_outputs).

        ``sample_weight`` (n_samples,) multiplies the loss of each row; its unit has no effect, and a row of weight two
        is the same as two equal rows.

        ``groups`` (n_samples,) keeps the rows of a group together where rows are held out to choose penalties and
        recipes; ``time`` (n_samples,) holds out later rows only; ``cv`` is a splitter of scikit-learn. They are for
        rows in memory, and for refined directions or the squared loss.

        ``offset`` (n_samples,) is a known part of f: the model learns the rest. Under "poisson", "gamma" and "tweedie"
        it is the logarithm of an exposure, and the model that of the mean per unit; under losses of residuals it is
        subtracted from y. It may name a column of a frame, as ``y`` and ``sample_weight`` may. Pass that of new rows to
        `predict`, `predict_interval` and `score`. Intervals count an error at an exposure in units of the deviation
        that the variance of the loss gives it; beside weights, which may count rows or not, they need `calibrate`.

        ``X`` may name files, or be a `rflaf.rows.files.Table`: then ``y`` and ``sample_weight`` name their columns, and
        every pass reads the rows block by block. Dask arrays and frames are summed where they live (`rflaf.rows.dask`).
        """
        with self._fitting() as fit:
            held_out = {"groups": groups, "time": time, "cv": cv}
            result, _ = fit_beside(self, fit, (X, y, sample_weight), offset, held_out)
        self._warn(result)
        return self

    def partial_fit(
        self,
        X: Any,
        y: Any,
        sample_weight: ArrayLike | None = None,
        *,
        half_life: float | None = None,
        offset: ArrayLike | str | None = None,
    ) -> Self:
        """Learn from more rows. The first call learns everything from its rows, later ones only the output weights.

        Under the squared loss the sums of the last layer continue: after any chunks, also after `fit`, the model is the
        ridge on all rows seen, with the directions, activations and ridge of the first chunk. Make that chunk large.
        Under other losses earlier rows are kept as their curvature around the solution (see `rflaf.training.online`);
        after `fit`, which keeps none, they are assumed to have been like the first new rows.

        ``half_life`` is for drifting data: a row weighs 2^(-k / half_life) once k rows have come after it, in the order
        of arrays, files or partitions. None forgets nothing. ``offset`` is that of `fit`.
        """
        with self._fitting() as fit:
            check_value("half_life", half_life)
            first = not hasattr(self, "model_")
            if first:
                held_out = dict.fromkeys(("groups", "time", "cv"))
                result, source = fit_beside(self, fit, (X, y, sample_weight), offset, held_out)
            else:
                refuse_without_offset(self.target_encoding_, offset)
                if offset is not None:
                    known = self.target_encoding_
                    X, y, sample_weight = without_offset(self.loss_, X, y, sample_weight, offset, known)
                source, single_output = self._rows(fit, X, y, sample_weight, self.loss_, False)
                self._check_outputs(source.n_outputs, single_output)
            self._carry_on(source, first, fit.begin, half_life)
        if first:
            self._warn(result)
        return self

    def _check_outputs(self, n_outputs: int, single_output: bool) -> None:
        """Refuse targets whose shape differs from that of the first rows."""
        if (n_outputs, single_output) != (self.model_.n_outputs, self._single_output):
            shape = "(n_samples,)" if self._single_output else f"(n_samples, {self.model_.n_outputs})"
            raise InvalidParameterError(
                f"y must have as many outputs as the first rows, shape {shape}", n_outputs, "Call fit to begin anew."
            )

    def predict(
        self, X: Any, return_std: bool = False, *, out: Any = None, offset: ArrayLike | str | None = None
    ) -> Any:
        """Return the mean of y at rows ``X``, or its quantile: (n_samples,) or (n_samples, n_outputs).

        ``return_std`` adds the standard deviation of a new observation at each row, of the same shape: the root mean
        square error on rows held out, larger or smaller as errors are where a row lies (`predict_interval`), and under
        the squared loss the posterior of the output weights. It assumes rows like those of the fit, and no law of the
        errors. The dtype is that of ``X``. ``out`` is an array to write into, a pair of them with ``return_std``: a
        memory map if the predictions of rows in files do not fit in memory. ``offset`` (n_samples,) is that of `fit`,
        or the name of its column; without it a model fitted beside one predicts the mean where it is zero.
        """
        if offset is not None:
            refuse_out_beside_offset(out)
            check_is_fitted(self)
            X, offset = offset_of(X, offset, self.target_encoding_)
            if not return_std:
                return with_offset(self.loss_, self._by_rows(X, self._mean), offset)
            mean, deviation = self.predict(X, return_std=True)
            return with_offset(self.loss_, mean, offset), deviation_with_offset(self.loss_, deviation, offset)
        if not return_std:
            return self._by_rows(X, self._mean, out)
        check_is_fitted(self)
        if self.model_.last_layer is None and self._bands is None:
            raise uncalibrated("return_std=True")
        of_mean, of_deviation = (None, None) if out is None else out
        return self._by_rows(X, self._mean, of_mean), self._by_rows(X, self._deviation, of_deviation)

    def _judge(self, result: FitResult) -> None:
        judged, self._bands = result.judged, None
        if judged is not None and self._exposed:
            judged = judged.by_precision()
        if judged is not None and self.memory != "auto" and self.memory < SPREAD_MEMORY:
            self._bands = bands_of_one_width(judged, result.loss)
        elif judged is not None:
            levels = getattr(self.table_encoding_, "level_counts", ())
            self._bands = error_bands(judged, result.loss, result.column_importance, levels)

    def _mean(self, rows: Any) -> Array:
        """Return the prediction at validated rows, shaped like the targets."""
        mean = self.loss_.mean(self.model_.decision(rows, self.n_jobs))
        return mean[:, 0] if self._single_output else mean

    def _deviation(self, rows: Any) -> Array:
        """Return the standard deviation of a new observation at validated rows, shaped like the targets."""
        f = self.model_.decision(rows, self.n_jobs)
        deviation = self.model_.deviation(rows) if self.model_.last_layer is not None else self._typical_deviation
        deviation = deviation * self._relative_size(rows, f)
        return deviation[:, 0] if self._single_target else deviation

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, offset: ArrayLike | str | None = None) -> float:
        """Return the coefficient of determination R^2 of the predictions at rows ``X``, which may be in files.

        For several quantiles, the share of the summed pinball loss of constant quantiles that the model saves.
        ``offset`` is that of `predict`.
        """
        check_is_fitted(self)
        refuse_without_offset(self.target_encoding_, offset)
        X, offset = offset_of(X, offset, self.target_encoding_)
        if offset is not None:
            return self._score_with_offset(X, y, sample_weight, offset)
        if self.model_.n_outputs > 1 and self.loss_.n_levels > 1:
            y, answers, sample_weight = self._scored(X, y, sample_weight, self._mean, labels=False)
            return share_saved(self.loss_, np.asarray(y, np.float64).reshape(-1, 1), answers, sample_weight)
        if is_files(X) or is_frame(X):
            from sklearn.metrics import r2_score  # slow to import, and only needed here

            y, answers, sample_weight = self._scored(X, y, sample_weight, self._mean, labels=False)
            return float(r2_score(y, answers, sample_weight=sample_weight))
        return float(super().score(X, y, sample_weight))

    def _score_with_offset(self, X: Any, y: Any, sample_weight: Any, offset: Any) -> float:
        from sklearn.metrics import r2_score  # slow to import, and only needed here

        y, answers, sample_weight = self._scored(X, y, sample_weight, self._mean, labels=False)
        answers, y = with_offset(self.loss_, answers, offset), np.asarray(y, np.float64)
        if self.model_.n_outputs > 1 and self.loss_.n_levels > 1:
            return share_saved(self.loss_, y.reshape(-1, 1), answers, sample_weight)
        return float(r2_score(y, answers, sample_weight=sample_weight))

    def prune(self, n_components: int) -> Self:
        """Return a fitted copy with ``n_components`` components, refitted from the sums of this fit, without data.

        The components kept are nested: those of a narrower copy are among those of a wider one.
        """
        check_is_fitted(self)
        refuse_new_weights(self, "prune")
        self._need_last_layer("prune")
        pruned = copy.copy(self)
        pruned._adopt(self.model_.prune(n_components))
        pruned._bands = None  # its errors are others
        return pruned

    def _need_last_layer(self, what: str) -> None:
        if self.model_.last_layer is None:
            raise InvalidParameterError(
                f"{what} needs the sums of a fit under the squared loss", self.loss, "Fit with loss='squared'."
            )
