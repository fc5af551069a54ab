"""Scores of predictions, for the command line, the report and the comparison with other models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rflaf.errors import Array
from rflaf.functions.losses import Loss, Pinball, Quantiles

_LEAST_PROBABILITY = 1e-15
AREA = "area under the ROC curve"  # the name of its score


@dataclass(frozen=True, slots=True)
class Score:
    """One number about predictions; ``lower``: whether lower is better; ``shown``: its format."""

    name: str
    value: float
    lower: bool
    shown: str = "figure"


def metrics_of(
    y: Array, predicted: Array, classes: Array | None = None, probabilities: Array | None = None
) -> dict[str, float]:
    """Return r2, rmse and mae of a regression; accuracy, log_loss, brier, ece and, for two classes, auc of classes.

    ``brier`` is the Brier score, ``ece`` the expected calibration error. Labels outside ``classes`` count as errors;
    all but the accuracy are then omitted.
    """
    if classes is None:
        rmse, mae, explained = regression_scores(_columns(y), _columns(predicted))
        return {"r2": explained.value, "rmse": rmse.value, "mae": mae.value}
    metrics = {"accuracy": float(np.mean(predicted == y))}
    if probabilities is None or not np.isin(y, classes).all():
        return metrics
    code = np.searchsorted(classes, y)
    log_loss, _, *area = classification_scores(code, probabilities)
    metrics |= {"log_loss": log_loss.value, "brier": brier_score(code, probabilities)}
    metrics["ece"] = calibration_error(code, probabilities)
    return {**metrics, "auc": area[0].value} if area and len(classes) == 2 else metrics


def quantile_metrics(y: Array, predicted: Array, levels: Sequence[float]) -> dict[str, float]:
    """Return the pinball loss and the share of targets at most the prediction, by level, and the mean pinball loss.

    ``y`` is (n,), ``predicted`` (n, n_levels). Twice the mean loss over even levels approximates the continuous ranked
    probability score.

    >>> quantile_metrics(np.array([1.0, 3.0]), np.array([[2.0], [2.0]]), [0.5])
    {'pinball': 0.5, 'pinball(0.5)': 0.5, 'below(0.5)': 0.5}
    """
    losses = pinball_losses(y, predicted, levels)
    metrics = {"pinball": float(losses.mean())}
    for level, loss, below in zip(levels, losses, np.mean(y[:, None] <= predicted, axis=0), strict=True):
        metrics |= {f"pinball({level:g})": float(loss), f"below({level:g})": float(below)}
    return metrics


def pinball_losses(y: Array, predicted: Array, levels: Sequence[float]) -> Array:
    """Return the mean pinball loss of every quantile, (n_levels,), of ``predicted`` (n, n_levels) for ``y`` (n,)."""
    residual, level = y[:, None] - predicted, np.array(levels)
    return np.asarray(np.maximum(level * residual, (level - 1) * residual).mean(axis=0))


def quantile_scores(levels: Sequence[float], y: Array, predicted: Array) -> tuple[Score, Score, Score]:
    """Return the pinball loss, the share of it that is saved, and how far observed shares are off; means over levels.

    ``y`` is (n, 1), ``predicted`` (n, n_levels). The share is that of the loss of the constant quantiles of these rows.

    >>> y = np.array([[1.0], [2.0], [3.0]])
    >>> [round(score.value, 3) for score in quantile_scores([0.5], y, y)]
    [0.0, 1.0, 0.5]
    """
    constant = np.broadcast_to(np.quantile(y[:, 0], levels, method="inverted_cdf"), predicted.shape)
    own, least = (float(pinball_losses(y[:, 0], each, levels).mean()) for each in (predicted, constant))
    off = np.abs(np.mean(y <= predicted, axis=0) - levels)
    return (
        Score("pinball loss", own, True),
        Score("pinball loss saved", 1 - own / least if least > 0 else float("nan"), False, "share"),
        Score("observed shares off by", float(off.mean()), True, "share"),
    )


def levels_of(loss: Loss | None) -> tuple[float, ...]:
    """Return the quantiles that a model under a loss predicts; none if it predicts something else."""
    if isinstance(loss, Quantiles):
        return loss.levels
    return (loss.quantile,) if isinstance(loss, Pinball) else ()


def regression_scores(y: Array, predicted: Array) -> tuple[Score, Score, Score]:
    """Return root mean square error, mean absolute error and the share of variance explained; means over outputs."""
    off, centred = y - predicted, y - y.mean(axis=0)
    square, variance = np.mean(off**2, axis=0), np.mean(centred**2, axis=0)
    explained = np.mean(1 - np.divide(square, variance, out=np.full_like(square, np.nan), where=variance > 0))
    return (
        Score("root mean square error", float(np.mean(np.sqrt(square))), True),
        Score("mean absolute error", float(np.mean(np.abs(off))), True),
        Score("variance explained", float(explained), False, "share"),
    )


def share_saved(loss: Loss, y: Array, answers: Array, weight: Array | None) -> float:
    """Return the share of a loss, summed over outputs, that ``answers`` save against the best constant answers."""
    weight = np.ones(len(y)) if weight is None else np.asarray(weight, np.float64)
    targets = loss.targets(y)
    constant = np.broadcast_to(loss.constant(targets, weight), targets.shape)
    own, least = (float(weight @ loss.value(f, targets)) for f in (answers, constant))
    return 1 - own / least if least > 0 else float("nan")


def classification_scores(code: Array, probability: Array, area: bool = True) -> tuple[Score, ...]:
    """Return log-loss, accuracy and, if every class occurs and ``area`` is asked for, the area under the ROC curve.

    ``code`` (n,) are class indices, ``probability`` is (n, n_classes).
    """
    from sklearn.metrics import roc_auc_score  # slow to import, and only needed here

    observed = np.maximum(probability[np.arange(code.size), code], _LEAST_PROBABILITY)
    log_loss = Score("log-loss", float(-np.mean(np.log(observed))), True)
    n_classes = probability.shape[1]
    if not area or np.unique(code).size < n_classes:
        return (log_loss, *label_scores(code, probability))
    if n_classes == 2:
        under = roc_auc_score(code, probability[:, 1])
    else:
        rows = probability / probability.sum(axis=1, keepdims=True)
        under = roc_auc_score(code, rows, multi_class="ovr", labels=np.arange(n_classes))
    return (log_loss, *label_scores(code, probability), Score(AREA, float(under), False))


def brier_score(code: Array, probability: Array) -> float:
    """Return the mean squared distance of probabilities (n, n_classes) from the labels, over one for two classes.

    1/n sum_i sum_k (p_ik - [k = code_i])^2, halved for two classes, where both terms of a row are the same.

    >>> brier_score(np.array([0, 1]), np.array([[0.9, 0.1], [0.4, 0.6]]))
    0.085
    """
    off = probability.astype(np.float64)
    off[np.arange(code.size), code] -= 1
    total = float(np.mean(np.sum(off**2, axis=1)))
    return round(total / (2 if probability.shape[1] == 2 else 1), 15)


def calibration_error(code: Array, probability: Array, n_bins: int = 15) -> float:
    """Return the expected calibration error: how far sureness and accuracy of the most likely class are apart.

    The mean over rows of |mean sureness - share of right answers| in their bin, of ``n_bins`` of equal width.

    >>> calibration_error(np.array([0, 0, 1, 0]), np.tile([0.75, 0.25], (4, 1)))
    0.0
    """
    sure, right = probability.max(axis=1).astype(np.float64), np.argmax(probability, axis=1) == code
    bins = np.minimum((sure * n_bins).astype(np.intp), n_bins - 1)
    return float(np.sum(np.abs(np.bincount(bins, sure - right, n_bins))) / max(code.size, 1))


def label_scores(code: Array, votes: Array) -> tuple[Score]:
    """Return the accuracy of the class with the largest of the ``votes`` (n, n_classes)."""
    return (Score("accuracy", float(np.mean(code == np.argmax(votes, axis=1))), False, "share"),)


def figure_of(number: float, digits: int = 3) -> str:
    """Format a number with ``digits`` significant digits, separated thousands, and an exponent only if needed.

    >>> [figure_of(x) for x in (12345.6, 0.012345, 7.0, 1e-9, float("nan"))]
    ['12,346', '0.0123', '7', '1e-09', 'not known']
    """
    if number != number:
        return "not known"
    if number == 0 or 1e-4 <= abs(number) < 10 ** (digits + 6):
        if abs(number) >= 10**digits:
            return f"{number:,.0f}"
        rounded = f"{number:.{digits}g}"
        return f"{float(rounded):f}".rstrip("0").rstrip(".") if "e" in rounded else rounded
    return f"{number:.{digits}g}"


def _columns(y: Array) -> Array:
    values = np.asarray(y, np.float64)
    return values.reshape(len(values), -1)
