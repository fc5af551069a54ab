"""Everything the report shows about a model on some rows, computed once."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rflaf.errors import Array, AssumptionWarning, InvalidParameterError
from rflaf.estimators.metrics import classification_scores, label_scores, quantile_scores, regression_scores
from rflaf.estimators.width_plan import WidthPlan, plan
from rflaf.inspection.effects import Response, of_numbers, response
from rflaf.rows.executors import SingleThreadedBLAS

from .checks import Oddity, check_data
from .quality import Comparison, Rival, Speed, Task, Training, compare, measure_speed
from .subject import Subject
from .uncertainty import Scoring, resample

_PLAN_ROWS, _LEAST_PLAN_ROWS = 2000, 20


@dataclass(frozen=True, slots=True)
class Findings:
    """A model on rows, and everything the report shows about it.

    Attributes
    ----------
    subject : the model
    rows : (n, n_features), the table as numbers
    target : (n, n_outputs), or class indices (n,)
    answers : (n, n_outputs) predictions, (n, n_levels) quantiles, (n, n_classes) probabilities, or decision values
        without probabilities
    ours, comparison : scores of the model and of the baselines
    speed, oddities : prediction times, problems of the data
    plan : width by theory; None with too few rows
    facts : further facts from the caller
    offset : (n, 1), known parts of f that answers and targets have in them; None for a model without one
    """

    subject: Subject
    rows: Array
    target: Array
    answers: Array
    ours: Rival
    comparison: Comparison
    speed: Speed
    oddities: tuple[Oddity, ...]
    plan: WidthPlan | None
    facts: Mapping[str, str]
    offset: Array | None = None

    @property
    def n_rows(self) -> int:
        return int(self.rows.shape[0])

    @property
    def classes(self) -> tuple[str, ...] | None:
        """Names of the classes; None for a regressor."""
        known = self.subject.classes
        return None if known is None else tuple(str(label) for label in known)

    @property
    def gives_probabilities(self) -> bool:
        return self.classes is not None and hasattr(self.subject.estimator, "predict_proba")

    @property
    def predicted(self) -> str:
        """Name of the predicted quantity."""
        if self.subject.levels_predicted:
            return quantile_name(self.subject.levels_predicted[self.subject.output])
        if self.offset is not None:
            return "prediction without the offset"
        if self.classes is None:
            return "prediction" if self.target.shape[1] == 1 else "prediction of the first output"
        if not self.gives_probabilities:
            return "decision value"
        return f"probability of {self.classes[1 if len(self.classes) == 2 else 0]}"

    @property
    def function(self) -> Response:
        """Function from rows of numbers to the quantity `predicted`."""
        return _function(self.subject)

    @property
    def quantiles(self) -> Response:
        """Function from rows of numbers to all quantiles that the model predicts, (n_rows, n_levels)."""
        estimator = of_numbers(self.subject.estimator)
        return lambda X: np.asarray(estimator.predict(X), np.float64).reshape(len(X), -1)


def quantile_name(level: float) -> str:
    """Return what a quantile is called.

    >>> quantile_name(0.5), quantile_name(0.05)
    ('median', 'quantile 0.05')
    """
    return "median" if level == 0.5 else f"quantile {level:g}"


def gather(
    subject: Subject,
    X: Any,
    y: ArrayLike,
    train: tuple[Any, ...] | None,
    width_plan: WidthPlan | None,
    facts: Mapping[str, str],
) -> Findings:
    """Compute the findings on the rows of a table ``X`` with targets ``y``."""
    rows, y = subject.rows(X), subject.targets(X, y)
    target = _target(subject, y, rows.shape[0])
    off = subject.offset(X)
    answers, score = _answers(subject, rows)
    answers = answers if off is None else subject.estimator.loss_.with_offset(answers, off)
    fitted_on = None if train is None else _training_rows(subject, *train)
    classes = subject.classes
    loss = None if off is None else subject.estimator.loss_
    task = Task(None if classes is None else len(classes), subject.levels_predicted, loss)
    with SingleThreadedBLAS():  # equal conditions for every model
        comparison = compare(_beside(rows, off), target, fitted_on, task, subject.model.n_components, score)
        speed = measure_speed(subject.model, rows, None if subject.estimator is None else _function(subject))
    labels = np.asarray(y) if classes is None else target
    return Findings(
        subject,
        rows,
        target,
        answers,
        Rival("this model", score(target, answers), resample(score, target, answers), speed.in_batch, ours=True),
        comparison,
        speed,
        tuple(check_data(subject.columns(X), labels, classes is not None, subject.missing)),
        _plan(rows, target, classes is not None) if width_plan is None else width_plan,
        facts,
        off,
    )


def _function(subject: Subject) -> Response:
    if subject.estimator is None:
        return lambda X: subject.model.decision(X)[:, 0]
    return response(subject.estimator)


def _answers(subject: Subject, rows: Array) -> tuple[Array, Scoring]:
    """Return the answer of the model for every row, and the function that scores it."""
    classes = subject.classes
    if classes is None:
        f, levels = subject.model.decision(rows), subject.levels_predicted
        score = partial(quantile_scores, levels) if levels else regression_scores
        return f if subject.estimator is None else subject.estimator.loss_.mean(f), score
    each = [response(subject.estimator, number) for number in range(len(classes))]
    if hasattr(subject.estimator, "predict_proba"):
        return np.column_stack([f(rows) for f in each]), classification_scores
    f = subject.model.decision(rows)
    return np.hstack([-f, f]) if f.shape[1] == 1 else f, label_scores


def _training_rows(subject: Subject, X: Any, y: ArrayLike, doubt: str | None = None) -> Training:
    rows = subject.rows(X)
    return Training(_beside(rows, subject.offset(X)), _target(subject, subject.targets(X, y), rows.shape[0]), doubt)


def _beside(rows: Array, offset: Array | None) -> Array:
    """Return rows with their offset as a last column, if they have one."""
    return rows if offset is None else np.column_stack([rows, offset])


def _target(subject: Subject, y: ArrayLike, n_rows: int) -> Array:
    """Return targets as numbers (n, n_outputs) or class indices (n,)."""
    values = np.asarray(y)
    if values.shape[:1] != (n_rows,) or n_rows < 2:
        rule = f"y must have a value for each of at least two rows of X, which has {n_rows}"
        raise InvalidParameterError(rule, values.shape, "Pass both.")
    if subject.classes is not None:
        code = np.minimum(np.searchsorted(subject.classes, values), len(subject.classes) - 1)
        others = np.unique(values[subject.classes[code] != values])
        if others.size:
            rule = f"labels must be among the model's classes, {subject.classes.tolist()}"
            raise InvalidParameterError(rule, others.tolist()[:5], "Drop them.")
        return code
    try:
        numbers = values.astype(np.float64).reshape(n_rows, -1)
    except ValueError as error:
        raise InvalidParameterError("y must be numbers", str(error), "Is this the target of the model?") from error
    n_targets = subject.model.n_outputs // max(len(subject.levels_predicted), 1)
    if numbers.shape[1] != n_targets or not np.all(np.isfinite(numbers)):
        rule = f"y must be {n_targets} finite numbers per row"
        raise InvalidParameterError(rule, values.shape, "Pass the target of the model.")
    return numbers


def _plan(rows: Array, target: Array, classification: bool) -> WidthPlan | None:
    if rows.shape[0] < _LEAST_PLAN_ROWS or np.ptp(target) == 0:
        return None
    index = np.linspace(0, rows.shape[0] - 1, min(_PLAN_ROWS, rows.shape[0])).astype(np.intp)
    loss = "log_loss" if classification else "squared"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AssumptionWarning)  # the page shows lambda beside the eigenvalues
        return plan(rows[index], target[index], loss=loss, random_state=0)
