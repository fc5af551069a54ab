"""Classification."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.base import (
    ClassifierMixin,
)
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets

from rflaf.errors import Array, InvalidParameterError
from rflaf.functions.bases import Basis
from rflaf.functions.densities import Density
from rflaf.functions.losses import Huber, Logistic, Loss, Pinball, Poisson, Softmax, Squared, SquaredHinge
from rflaf.rows.blocks import ArraySource, Block, BlockSource, LabelTargets, array_source
from rflaf.rows.files import is_files
from rflaf.rows.inputs import is_frame
from rflaf.rows.progress import Begin
from rflaf.training.algorithm1 import FitResult

from .base import RandomFeatureEstimator
from .parameters import resolve_loss
from .rows_in import Fitting, check_weight


def _gives_probabilities(estimator: Any) -> bool:
    """Whether a classifier's loss has probabilities."""
    loss = getattr(estimator, "loss_", estimator.loss)
    return loss == "log_loss" or isinstance(loss, Logistic | Softmax)


class RFLAFClassifier(ClassifierMixin, RandomFeatureEstimator):
    """Classification by small models of random directions and learned activations.

    log odds f(x) = b + sum_m q_m v_m sigma_m(u_m(x)), one for two classes, one a class for more; all classes share the
    directions and activations, only the output weights v differ.

    The model and its three rungs are those of `RFLAFRegressor`: refined by default, `RFLAFClassifier.convex`, and
    `RFLAFClassifier.paper`, which is Algorithm 1 with the logistic or softmax loss in lines 2 and 6.

    Parameters
    ----------
    n_components : int or "auto", default=100
        Width S, as in `RFLAFRegressor`.
    loss : {"log_loss", "squared_hinge"} or Loss, default="log_loss"
        "log_loss" is logistic for two classes and softmax for more, and gives probabilities. "squared_hinge" fits a
        margin, one class against the rest for more than two.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, which multiply those of the rows; "balanced" makes all classes weigh the same.
    directions, sampling, activation, curves, basis, n_basis, pool_size, density, bandwidth, alpha, leverage_alpha,
    leverage_rows, fit_intercept, max_iter, tol, tolerance, half_life, random_state, n_jobs, memory, verbose, checkpoint
        As in `RFLAFRegressor`; where alpha is a ridge, "auto" takes the one of lowest loss on rows held out.

    Attributes
    ----------
    classes_ : (n_classes,), the labels in order
    coef_ : (n_outputs, n_components_), output weights: one output for two classes, else one a class
    intercept_ : (n_outputs,)
    loss_ : the loss that was minimised
    Others as in `RFLAFRegressor`.

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

    def __init__(
        self,
        n_components: int | str = 100,
        *,
        loss: str | Loss = "log_loss",
        class_weight: dict[Any, float] | str | None = None,
        directions: str = "refined",
        sampling: str = "plain",
        activation: str | int = "per_component",
        curves: bool | str = "auto",
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
            outliers="keep",
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
        self.class_weight = class_weight

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to rows ``X`` (n_samples, n_features), dense or sparse, and labels ``y`` (n_samples,) of any kind.

        ``sample_weight`` (n_samples,) multiplies the loss of each row. ``X`` may name files, as for `RFLAFRegressor`.
        """
        with self._fitting() as fit:
            self._check_weights_of_classes(("balanced",))
            labels, found, weights = self._labels(fit, X, y, sample_weight)
            self.classes_ = found
            result = self._fit_labels(labels, found, weights, fit.begin)
        self._warn(result)
        return self

    def partial_fit(
        self, X: Any, y: Any, classes: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Learn from more rows. The first call learns everything from its rows, later ones only the output weights.

        ``classes`` are all labels that will ever come; the first call needs them. What earlier rows said is kept as
        their curvature around the solution (see `rflaf.training.online`), so the rows themselves can be forgotten.
        Make the
        first chunk large: directions, activations and the penalty stay as it sets them. After `fit`, which keeps no
        sums, the rows before are taken to have been like the first new ones.
        """
        with self._fitting() as fit:
            self._check_weights_of_classes(())
            first = not hasattr(self, "model_")
            known = self._known_classes(classes, first)
            labels, found, weights = self._labels(fit, X, y, sample_weight, reset=first)
            _refuse_others(found, known)
            self.classes_ = known
            if first:
                result = self._fit_labels(labels, found, weights, fit.begin)
            self._carry_on(self._targets(labels, found, weights), first, fit.begin)
        if first:
            self._warn(result)
        return self

    def decision_function(self, X: Any, *, out: Array | None = None) -> Array:
        """f at rows ``X``: (n_samples,) for two classes, above zero for the second; else (n_samples, n_classes).

        As all predictions it is written into the array ``out`` if one is given.
        """
        return self._by_decision(X, lambda f: f[:, 0] if f.shape[1] == 1 else f, out)

    def _by_decision(self, X: Any, answer: Callable[[Array], Array], out: Array | None) -> Array:
        return self._by_rows(X, lambda rows: answer(self.model_.decision(rows, self.n_jobs)), out)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of rows ``X``, which may be in files, whose label is predicted."""
        if is_files(X) or is_frame(X):
            from sklearn.metrics import accuracy_score  # slow to import, and only needed here

            y, answers, sample_weight = self._scored(X, y, sample_weight, self._label, labels=True)
            y = y[:, 0].astype(answers.dtype) if is_files(X) else y
            return float(accuracy_score(y, answers, sample_weight=sample_weight))
        return float(super().score(X, y, sample_weight))

    def predict(self, X: Any, *, out: Array | None = None) -> Array:
        """The most likely label of every row of ``X``, (n_samples,)."""
        return self._by_rows(X, self._label, out)

    def _label(self, rows: Any) -> Array:
        """The most likely label of validated rows, (n_rows,)."""
        f = self.model_.decision(rows, self.n_jobs)
        return self.classes_[(f[:, 0] > 0).astype(int) if f.shape[1] == 1 else np.argmax(f, axis=1)]

    @available_if(_gives_probabilities)
    def predict_proba(self, X: Any, *, out: Array | None = None) -> Array:
        """Probabilities of the classes, (n_samples, n_classes), in the order of ``classes_``."""
        return self._by_decision(X, _probabilities, out)

    @available_if(_gives_probabilities)
    def predict_log_proba(self, X: Any, *, out: Array | None = None) -> Array:
        """Logarithms of the probabilities, exact also where these are too small for a float: (n_samples, n_classes)."""
        return self._by_decision(X, _log_probabilities, out)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = False
        return tags

    def _labels(
        self, fit: Fitting, X: Any, y: Any, sample_weight: Any, reset: bool = True
    ) -> tuple[BlockSource, Array, Array]:
        """Rows with labels for targets, however they are given; the labels found, and the sums of their weights."""
        rows = self._open(fit, X, y, sample_weight, True, reset)
        if rows is not None:
            found = sorted(rows.label_weights)
            return rows.source, np.array(found), np.array([rows.label_weights[label] for label in found])
        X, y, sample_weight = self._encoded(X, y, sample_weight, True, reset)
        X, y = self._checked(X, y, reset)
        check_classification_targets(y)
        weight = check_weight(sample_weight, X)
        labels, at = np.unique(y, return_inverse=True)
        return ArraySource(X, y[:, None], weight), labels, np.bincount(at, weight, labels.size)

    def _fit_labels(self, labels: BlockSource, found: Array, weights: Array, begin: Begin) -> FitResult:
        """Fit to rows of ``classes_``, of which those found have weights."""
        spec = self._spec()
        of_class = self._weight_of_classes(found[weights > 0], weights[weights > 0])
        used = weights if of_class is None else weights * of_class[np.searchsorted(self.classes_, found)]
        _refuse_one_class(found[used > 0])
        spec.loss.check(np.eye(self.classes_.size) if self.classes_.size > 2 else np.array([[0.0], [1.0]]))
        result = self._train(self._targets(labels, found, weights), spec, begin)
        self._accept(result, single_output=False)
        return result

    def _targets(self, labels: BlockSource, found: Array, weights: Array) -> BlockSource:
        """Rows with zeros and ones for targets, weighted by class; arrays are encoded at once."""
        view = LabelTargets(labels, self.classes_, self._weight_of_classes(found[weights > 0], weights[weights > 0]))
        if not isinstance(labels, ArraySource):
            return view
        whole = view.seen(Block(labels.X, labels.y, labels.weight))
        return array_source(whole.X, whole.y, whole.weight)

    def _loss(self) -> Loss:
        log_loss = Logistic() if self.classes_.size == 2 else Softmax()
        named: dict[str, Loss] = {"log_loss": log_loss, "squared_hinge": SquaredHinge()}
        if isinstance(self.loss, Squared | Huber | Pinball | Poisson):
            raise InvalidParameterError(
                "the loss of a classifier must be one of margins, above zero for one class and below for the other",
                self.loss,
                "Use 'log_loss'.",
            )
        return resolve_loss(self.loss, named, self.directions == "refined")

    def _weight_of_classes(self, present: Array, weights: Array) -> Array | None:
        """By which the rows of every class are multiplied, (n_classes,), where some have the weights given."""
        if self.class_weight is None:
            return None
        factor = np.ones(self.classes_.size)
        factor[np.searchsorted(self.classes_, present)] = compute_class_weight(
            self.class_weight, classes=present, y=present, sample_weight=weights
        )
        return factor

    def _check_weights_of_classes(self, words: tuple[str, ...]) -> None:
        weight = self.class_weight
        if isinstance(weight, dict):
            fine = all(isinstance(w, Real) and 0 <= w < np.inf for w in weight.values())
        else:
            fine = weight is None or (isinstance(weight, str) and weight in words)
        if not fine:
            raise InvalidParameterError(
                "class_weight must be " + " or ".join(["None", "a dict of weights, at least zero", *map(repr, words)]),
                weight,
                "Use None; partial_fit cannot balance classes it has not seen.",
            )

    def _known_classes(self, classes: ArrayLike | None, first: bool) -> Array:
        """All labels that may come: those of the first call to `partial_fit`."""
        if first and classes is None:
            raise InvalidParameterError(
                "the first call to partial_fit needs classes, all labels that will come", None, "Pass np.unique(y)."
            )
        if classes is None:
            return self.classes_
        known = np.unique(np.asarray(classes))
        if not first and not np.array_equal(known, self.classes_):
            raise InvalidParameterError(
                f"classes must be those of the first call to partial_fit, {self.classes_.tolist()}",
                known.tolist(),
                "Leave classes out.",
            )
        return known


def _probabilities(f: Array) -> Array:
    return expit(np.hstack([-f, f])) if f.shape[1] == 1 else softmax(f, axis=1)


def _log_probabilities(f: Array) -> Array:
    return log_expit(np.hstack([-f, f])) if f.shape[1] == 1 else log_softmax(f, axis=1)


def _refuse_one_class(present: Array) -> None:
    if present.size < 2:
        raise InvalidParameterError(
            "labels must be of at least two classes",
            f"{present.size} class: {present.tolist()}",
            "There is nothing to tell apart.",
        )


def _refuse_others(y: Array, known: Array) -> None:
    others = np.setdiff1d(y, known)
    if others.size:
        raise InvalidParameterError(
            f"labels must be among the classes given first, {known.tolist()}",
            others.tolist(),
            "Name all classes in the first call to partial_fit.",
        )
