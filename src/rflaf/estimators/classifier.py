"""Classification."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from rflaf.errors import Array, InvalidParameterError
from rflaf.functions.bases import Basis
from rflaf.functions.densities import Density
from rflaf.functions.losses import (
    Gamma,
    Huber,
    Logistic,
    Loss,
    Pinball,
    Poisson,
    Quantiles,
    Softmax,
    Squared,
    SquaredHinge,
    Tweedie,
)  # fmt: skip
from rflaf.model.doubt import deviations
from rflaf.model.narrower import prune_at
from rflaf.rows.files import is_files
from rflaf.rows.inputs import is_frame

from . import parameters
from .choices import ActivationChoice, Sampling
from .intervals import PredictsSets
from .labelled_rows import LearnsLabels, gives_probabilities
from .limits import refuse_new_weights
from .retired import accept_retired
from .several_labels import is_several
from .soft_labels import soft_labels


class RFLAFClassifier(ClassifierMixin, PredictsSets, LearnsLabels):
    """Classification by small models of random directions and learned activations.

    The log odds are f(x) = b + sum_m q_m v_m sigma_m(u_m(x)): one f for two classes, one per class for more. Classes
    share directions and activations; only the output weights v differ. `RFLAFClassifier.convex` and
    `RFLAFClassifier.paper` keep random directions, as in `RFLAFRegressor`, whose documentation says more on each
    argument; the latter is Algorithm 1 with the logistic or softmax loss in lines 2 and 6.

    Parameters
    ----------
    n_components : int or "auto", default=100
        Number of components, the width S; "auto" takes the smallest width that is nearly as good as the best.
    loss : {"log_loss", "squared_hinge"} or Loss, default="log_loss"
        "log_loss" is logistic for two classes and softmax for more, and gives probabilities. "squared_hinge" fits a
        margin, one class against the rest for more than two.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, which multiply those of the rows. "balanced" gives all classes the same weight.
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
    monotone : dict from columns to 1 or -1, or None, default=None
        Columns that the log odds of the second of two classes must never fall in (1), or never rise in (-1).
    interactions : None, "none" or list of pairs of columns, default=None
        Columns that may act together: any (None), none, or those of each pair given; see `RFLAFRegressor`.
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
    classes_ : array (n_classes,), labels in order
    output_weights_, intercept_ : arrays (n_outputs, n_components_), (n_outputs,): one output for two classes, else one
        per class
    n_components_, alpha_, bandwidth_ : width after duplicates are merged, penalty and length scale used
    loss_ : Loss that was minimised, in the units of the target
    column_importance_, feature_importances_ : array (n_features_in_,), how much each column moves the model, as shares
        that sum to one
    trials_ : tuple of Trial, recipes tried on held-out rows, the chosen one first; empty for random directions
    selection_ : Selection or None, nested path of greedy selection with its error at every width
    leverage_, leverage_scores_, effective_dimension_ : scores of the pool and their mean; None unless by leverage
    oof_prediction_ : probabilities of the training rows by models not fitted to them, NaN if never held out; not in
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
    >>> from rflaf import RFLAFClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((500, 2))
    >>> y = np.where(np.hypot(X[:, 0], X[:, 1]) < 1, "inside", "outside")
    >>> model = RFLAFClassifier(n_components=20, random_state=0).fit(X, y)
    >>> model.predict([[0.0, 0.0], [3.0, 0.0]])
    array(['inside', 'outside'], dtype='<U7')
    >>> model.predict_proba([[0.0, 0.0]]).shape
    (1, 2)
    """

    __metadata_request__partial_fit = {"half_life": UNUSED}  # noqa: RUF012  scikit-learn wants a dictionary
    __metadata_request__predict = {"out": UNUSED}  # noqa: RUF012
    __metadata_request__predict_proba = {"out": UNUSED}  # noqa: RUF012
    __metadata_request__predict_log_proba = {"out": UNUSED}  # noqa: RUF012
    __metadata_request__decision_function = {"out": UNUSED}  # noqa: RUF012

    @accept_retired
    def __init__(
        self,
        n_components: int | str = 100,
        *,
        loss: str | Loss = "log_loss",
        class_weight: dict[Any, float] | str | None = None,
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

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: ArrayLike | None = None,
        *,
        groups: Any = None,
        time: Any = None,
        cv: Any = None,
    ) -> Self:
        """Fit to rows ``X`` (n_samples, n_features), dense or sparse, and labels ``y`` (n_samples,) of any kind.

        ``y`` may be rows of probabilities too (n_samples, n_classes), which sum to one, under ``loss="log_loss"``: the
        loss of a row is the mean of those of its labels. Classes are the names of the columns of a frame, else 0, 1,
        and so on; `rflaf.estimators.soft_labels.SoftLabels` names them.

        ``y`` of zeros and ones (n_samples, n_labels) says which of several labels apply to a row, any number of them,
        and so does a list of such columns of a frame. One model learns all, each with log odds of its own; ``classes_``
        are the names of the columns, or 0, 1, and so on.

        ``sample_weight`` (n_samples,) multiplies the loss of each row. ``groups``, ``time`` and ``cv`` say which rows
        to hold out, and ``X`` may name files, as for `RFLAFRegressor`.
        """
        with self._fitting() as fit:
            parameters.check_class_weight(self.class_weight, ("balanced",))
            held_out, soft = {"groups": groups, "time": time, "cv": cv}, soft_labels(y)
            self._several = is_several(X, y)
            if self._several:
                source = self._several_targets(X, y, sample_weight)
                result = self._fit_several(source, fit.begin, held_out)
            elif soft is None:
                labels, found, weights = self._labels(fit, X, y, sample_weight)
                self.classes_ = found
                result = self._fit_labels(labels, found, weights, fit.begin, held_out)
            else:
                result = self._fit_soft_labels(fit, X, soft, sample_weight, held_out)
        self._warn(result)
        return self

    def partial_fit(
        self,
        X: Any,
        y: Any,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        half_life: float | None = None,
    ) -> Self:
        """Learn from more rows. The first call learns everything from its rows, later ones only the output weights.

        ``classes`` are all labels that will ever come; the first call needs them. Earlier rows are kept as their
        curvature around the solution (see `rflaf.training.online`). Make the first chunk large: it sets directions,
        activations and the penalty. ``half_life`` and earlier calls of `fit` act as in `RFLAFRegressor.partial_fit`.
        Several labels, as in `fit`, need no ``classes``.
        """
        with self._fitting() as fit:
            parameters.check_value("half_life", half_life)
            parameters.check_class_weight(self.class_weight, ())
            first = not hasattr(self, "model_")
            if is_several(X, y) or (self._several and not first):
                self._learn_several(fit, X, y, classes, sample_weight, half_life)
                self._doubt = self._doubt if first else None
                return self
            known = parameters.known_classes(classes, None if first else self.classes_)
            labels, found, weights = self._labels(fit, X, y, sample_weight, reset=first)
            parameters.refuse_others(found, known)
            self.classes_ = known
            if first:
                result = self._fit_labels(labels, found, weights, fit.begin)
            self._carry_on(self._targets(labels, found, weights), first, fit.begin, half_life)
            self._doubt = self._doubt if first else None
        if first:
            self._warn(result)
        return self

    def decision_function(self, X: Any, *, out: Array | None = None) -> Array:
        """Return f at rows ``X``: (n_samples,) for two classes, above zero for the second; else (n_samples, n_classes).

        Of several labels each has its f, above zero where it is more likely than not. Like all predictions, it is
        written into the array ``out`` if one is given.
        """
        return self._by_decision(X, lambda f: f[:, 0] if f.shape[1] == 1 else f, out)

    def _by_decision(self, X: Any, answer: Callable[[Array], Array], out: Array | None) -> Array:
        return self._by_rows(X, lambda rows: answer(self.model_.decision(rows, self.n_jobs)), out)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of rows ``X``, which may be in files, whose label is predicted; of several labels, all."""
        if is_files(X) or is_frame(X):
            from sklearn.metrics import accuracy_score  # slow to import, and only needed here

            y, answers, sample_weight = self._scored(X, y, sample_weight, self._label, labels=not self._several)
            y = y[:, 0].astype(answers.dtype) if is_files(X) else np.asarray(y)
            return float(accuracy_score(y, answers, sample_weight=sample_weight))
        return float(super().score(X, y, sample_weight))

    def predict(self, X: Any, *, out: Array | None = None) -> Array:
        """Return the most likely label of every row of ``X``, (n_samples,); zeros and ones (n_samples, n_labels) of
        several.
        """
        return self._by_rows(X, self._label, out)

    def _label(self, rows: Any) -> Array:
        """Return the most likely label of validated rows, (n_rows,), or which of several are likely."""
        f = self.model_.decision(rows, self.n_jobs)
        if self._several:
            return (f > 0).astype(int)
        return self.classes_[(f[:, 0] > 0).astype(int) if f.shape[1] == 1 else np.argmax(f, axis=1)]

    @available_if(gives_probabilities)
    def predict_proba(self, X: Any, return_std: bool = False, *, out: Any = None) -> Any:
        """Return the probabilities of the classes, (n_samples, n_classes), in the order of ``classes_``.

        Those of several labels are one array (n_samples, n_labels), as of scikit-learn's `MLPClassifier`: how likely
        each of them applies. Rows need not sum to one.

        ``return_std`` adds the standard deviation of each probability, of the same shape: how far it would lie from
        this one in fits to other rows of the same law. It says nothing of the label of a row, which stays uncertain
        however many rows there are. Models of the folds of a fit set its level, and the curvature of the loss in the
        output weights says how it differs between rows. ``out`` is a pair of arrays then.
        """
        if not return_std:
            return self._by_decision(X, self._probabilities, out)
        check_is_fitted(self)
        if self._doubt is None:
            rule = "return_std=True needs directions='refined', 20 rows or more, and fit alone"
            raise InvalidParameterError(rule, "nothing is known of other fits", "Call fit on all rows.")
        of_mean, of_deviation = (None, None) if out is None else out
        return self._by_decision(X, self._probabilities, of_mean), self._by_rows(X, self._deviations, of_deviation)

    def _deviations(self, rows: Any) -> Array:
        """Return the standard deviations of the probabilities at validated rows."""
        assert self._doubt is not None
        variance = self._doubt.of_features(self.model_.features(rows))
        found = deviations(self.model_.decision(rows, self.n_jobs), variance, self._several)
        return found.astype(rows.dtype, copy=False)

    @available_if(gives_probabilities)
    def predict_log_proba(self, X: Any, *, out: Array | None = None) -> Array:
        """Return log probabilities, (n_samples, n_classes), exact even if a probability underflows."""
        return self._by_decision(X, log_expit if self._several else _log_probabilities, out)

    def prune(self, n_components: int, X: Any) -> Self:
        """Return a fitted copy with ``n_components`` components, whose log odds at rows ``X`` are nearest to these.

        A fit under other losses than the squared one keeps no sums, so rows are needed, such as those of the fit, but
        no labels. The components kept are nested, as in `RFLAFRegressor.prune`; see `rflaf.model.narrower.prune_at`.
        """
        check_is_fitted(self)
        refuse_new_weights(self, "prune")
        rows, pruned = self._dense_rows(X), copy.copy(self)
        pruned._adopt(prune_at(self.model_, rows, self.loss_, n_components))
        pruned._radii = pruned._seen = pruned._doubt = None  # its errors are others
        return pruned

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags

    def _held_out_answer(self, decision: Array) -> Array:
        """Return probabilities from the values of f at rows held out, or these values where the loss has none."""
        return self._probabilities(decision) if gives_probabilities(self) else decision

    def _probabilities(self, f: Array) -> Array:
        return expit(f) if self._several else _probabilities(f)

    def _loss(self) -> Loss:
        log_loss = Logistic() if self._several or self.classes_.size == 2 else Softmax()
        named: dict[str, Loss] = {"log_loss": log_loss, "squared_hinge": SquaredHinge()}
        if isinstance(self.loss, Squared | Huber | Pinball | Quantiles | Poisson | Tweedie | Gamma):
            rule = "the loss of a classifier must be one of margins, above zero for one class and below for the other"
            raise InvalidParameterError(rule, self.loss, "Use 'log_loss'.")
        return parameters.resolve_loss(self.loss, named)


def _probabilities(f: Array) -> Array:
    return expit(np.hstack([-f, f])) if f.shape[1] == 1 else softmax(f, axis=1)


def _log_probabilities(f: Array) -> Array:
    return log_expit(np.hstack([-f, f])) if f.shape[1] == 1 else log_softmax(f, axis=1)
