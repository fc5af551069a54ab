"""Rows with labels as targets of zeros and ones: one label a row, probabilities of labels, or several at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

from rflaf.errors import Array, InvalidParameterError
from rflaf.functions.losses import Logistic, Softmax
from rflaf.model.doubt import Doubt
from rflaf.rows.blocks import ArraySource, Block, BlockSource, LabelTargets, array_source
from rflaf.rows.progress import Begin
from rflaf.training.calibration import label_radii
from rflaf.training.doubt import doubt_of
from rflaf.training.final_fit import FitResult

from . import parameters
from .base import RandomFeatureEstimator
from .rows_in import Fitting, check_weight
from .several_labels import check_indicators, indicators, is_several, label_names
from .soft_labels import SoftLabels


def gives_probabilities(estimator: Any) -> bool:
    """Return whether the loss of a classifier has probabilities."""
    loss = getattr(estimator, "loss_", estimator.loss)
    return loss == "log_loss" or isinstance(loss, Logistic | Softmax)


class LearnsLabels(RandomFeatureEstimator):
    """The methods of a classifier that turn labels into targets and fit to them."""

    classes_: Array
    _several = False  # whether every label is a target of its own, and any number of them may apply to a row
    _doubt: Doubt | None = None

    def _judge(self, result: FitResult) -> None:
        self._doubt = doubt_of(result.model, result.loss, result.judged, result.refits)

    def _labels(
        self, fit: Fitting, X: Any, y: Any, sample_weight: Any, reset: bool = True
    ) -> tuple[BlockSource, Array, Array]:
        """Rows with labels for targets, however they are given; the labels found, and the sums of their weights."""
        rows = self._open(fit, X, y, sample_weight, True, reset)
        if rows is not None:
            weights = rows.seen.label_weights
            found = sorted(weights)
            return rows.source, np.array(found), np.array([weights[label] for label in found])
        X, y, sample_weight = self._encoded(X, y, sample_weight, True, reset)
        X, y = self._checked(X, y, reset)
        check_classification_targets(y)
        weight = check_weight(sample_weight, X)
        labels, at = np.unique(y, return_inverse=True)
        return ArraySource(X, y[:, None], weight), labels, np.bincount(at, weight, labels.size)

    def _fit_soft_labels(
        self, fit: Fitting, X: Any, soft: SoftLabels, sample_weight: Any, held_out: dict[str, Any]
    ) -> FitResult:
        """Fit to rows with probabilities of labels; wherever one label is needed, it is the most likely one."""
        self.classes_ = soft.classes
        if not gives_probabilities(self):
            raise InvalidParameterError("rows of probabilities need loss='log_loss'", self.loss, "Use 'log_loss'.")
        labels, _, _ = self._labels(fit, X, soft.labels, sample_weight)
        if not isinstance(labels, ArraySource):
            rule = "rows of probabilities need rows in memory"
            raise InvalidParameterError(rule, type(labels).__name__, "Read them first.")
        weight = np.ones(len(soft)) if labels.weight is None else labels.weight.astype(np.float64)
        weights, targets = weight @ soft.P, array_source(labels.X, soft.targets, labels.weight)
        of_class = self._weight_of_classes(soft.classes[weights > 0], weights[weights > 0])
        if of_class is not None:
            targets = array_source(labels.X, soft.targets, weight * (soft.P @ of_class))
        return self._fit_labels(labels, soft.classes, weights, fit.begin, held_out, targets)

    def _fit_labels(
        self,
        labels: BlockSource,
        found: Array,
        weights: Array,
        begin: Begin,
        held_out: dict[str, Any] | None = None,
        targets: BlockSource | None = None,
    ) -> FitResult:
        """Fit to rows with labels of ``classes_``; ``weights`` are the summed weights of the labels found.

        ``targets`` are the same rows with targets other than zeros and ones.
        """
        spec = self._spec()
        of_class = self._weight_of_classes(found[weights > 0], weights[weights > 0])
        used = weights if of_class is None else weights * of_class[np.searchsorted(self.classes_, found)]
        parameters.refuse_one_class(found[used > 0])
        spec.loss.check(np.eye(self.classes_.size) if self.classes_.size > 2 else np.array([[0.0], [1.0]]))
        if held_out is not None:
            spec = self._with_splits(spec, labels, **held_out)
        targets = self._targets(labels, found, weights) if targets is None else targets
        result = self._train(targets, spec, begin)
        self._accept(result, single_output=False)
        self._radii = None if result.judged is None else label_radii(result.judged, result.loss, of_class)
        return result

    def _targets(self, labels: BlockSource, found: Array, weights: Array) -> BlockSource:
        """Return rows with targets of zeros and ones, weighted by class; arrays are encoded at once."""
        view = LabelTargets(labels, self.classes_, self._weight_of_classes(found[weights > 0], weights[weights > 0]))
        if not isinstance(labels, ArraySource):
            return view
        whole = view.seen(Block(labels.X, labels.y, labels.weight))
        return array_source(whole.X, whole.y, whole.weight)

    def _weight_of_classes(self, present: Array, weights: Array) -> Array | None:
        """Return the factor on the weights of the rows of each class, (n_classes,), given the weights present."""
        if self.class_weight is None:
            return None
        factor = np.ones(self.classes_.size)
        factor[np.searchsorted(self.classes_, present)] = compute_class_weight(
            self.class_weight, classes=present, y=present, sample_weight=weights
        )
        return factor

    def _several_targets(self, X: Any, y: Any, sample_weight: Any, reset: bool = True) -> ArraySource:
        """Return rows with a target for each of several labels, and take their names."""
        if self.class_weight is not None:
            rule = "class_weight must be None for several labels"
            raise InvalidParameterError(rule, self.class_weight, "Weigh the rows: sample_weight.")
        names = label_names(y)
        X, Y, sample_weight = self._encoded(X, indicators(y), sample_weight, False, reset)
        X, Y = self._checked(X, Y, reset, multi_output=True, y_numeric=True)
        if reset:
            self.classes_ = names
        check_indicators(Y, self.classes_.size, reset)
        return array_source(X, Y, check_weight(sample_weight, X))

    def _fit_several(self, source: ArraySource, begin: Begin, held_out: dict[str, Any]) -> FitResult:
        """Fit one model to several labels, each with log odds of its own."""
        self._several, self._radii, spec = True, None, self._spec()
        if isinstance(spec.loss, Softmax):
            rule = "the softmax loss is for classes that exclude each other, not for several labels"
            raise InvalidParameterError(rule, self.loss, "Use 'log_loss'.")
        result = self._train(source, self._with_splits(spec, source, **held_out), begin)
        self._accept(result, single_output=False)
        return result

    def _learn_several(
        self, fit: Fitting, X: Any, y: Any, classes: Any, sample_weight: Any, half_life: float | None
    ) -> None:
        """Learn from more rows of several labels."""
        first = not hasattr(self, "model_")
        if not is_several(X, y) or not (first or self._several):
            rule = "all rows must have one label, or all of them several"
            raise InvalidParameterError(rule, "others than those of the first rows", "Call fit to begin anew.")
        self._several = True
        source = self._several_targets(X, y, sample_weight, first)
        if classes is not None and np.asarray(classes).tolist() != self.classes_.tolist():
            raise InvalidParameterError(f"classes must be {self.classes_.tolist()}", classes, "Leave them out.")
        if first:
            self._warn(self._fit_several(source, fit.begin, {"groups": None, "time": None, "cv": None}))
        self._carry_on(source, first, fit.begin, half_life)
