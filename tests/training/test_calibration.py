"""Sizes of errors and radii, number for number beside slow references."""

from __future__ import annotations

import logging
from threading import Thread

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit, softmax

from rflaf.functions.losses import Logistic, Pinball, Softmax, Squared, SquaredHinge
from rflaf.model.intervals import inputs_of
from rflaf.rows.folds import folds_of
from rflaf.rows.tables.statistics import N_FOLDS, shrunken_means
from rflaf.training import calibration
from rflaf.training.calibration import (
    bands_of,
    bands_of_one_width,
    candidates,
    constant_spread,
    error_bands,
    fit_spread_apart,
    label_radii,
    label_scores,
)
from rflaf.training.held_out import Judged

RNG = np.random.default_rng(0)
SCORES = RNG.standard_normal((40, 2))
SIZE = RNG.uniform(0.5, 2.0, (40, 2))
WEIGHT = RNG.uniform(0.5, 2.0, 40)


def order_statistic(scores, weight, level):
    """Return the least score with that share of ``n + 1`` rows, of mean weight one, at or below."""
    at = np.argsort(scores)
    below = np.cumsum(weight[at]) * len(scores) / weight.sum()
    rank = np.ceil(level * (len(scores) + 1) - 1e-9)
    return scores[at][np.argmax(below >= rank * (1 - 1e-9))]


def noisy_rows(n_rows=400, n_columns=3):
    """Inputs of a spread, errors whose size follows the first column after the answer, and weights."""
    rng = np.random.default_rng(1)
    Z = rng.standard_normal((n_rows, 1 + n_columns))
    return Z, np.exp(Z[:, 1:2]) * rng.standard_normal((n_rows, 1)), rng.uniform(0.5, 2.0, n_rows)


def test_two_hundred_columns_of_most_importance_are_candidates():
    importance = np.random.default_rng(0).permutation(205).astype(float)
    assert_array_equal(candidates(importance), np.flatnonzero(importance >= 5))


def test_scores_of_labels_are_one_minus_their_probability_or_minus_their_margin():
    f = np.array([[0.3], [-2.0], [0.0]])
    p = expit(f)
    assert_allclose(label_scores(f, Logistic()), np.hstack([p, 1 - p]), rtol=1e-12)
    of_classes = np.array([[0.3, -1.0, 2.0], [0.0, 0.0, 1.0]])
    assert_allclose(label_scores(of_classes, Softmax()), 1 - softmax(of_classes, axis=1), rtol=1e-12)
    assert_array_equal(label_scores(f, SquaredHinge()), np.hstack([f, -f]))
    assert_array_equal(label_scores(of_classes, SquaredHinge()), -of_classes)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_radii_of_labels_are_order_statistics_of_the_scores_of_true_labels(n_classes):
    rng = np.random.default_rng(2)
    label, weight, of_class = rng.integers(0, n_classes, 30), rng.uniform(0.5, 2, 30), np.array([1.0, 4.0, 2.0])
    f = rng.standard_normal((30, 1 if n_classes == 2 else 3))
    y = label[:, None].astype(float) if n_classes == 2 else np.eye(3)[label]
    loss = Logistic() if n_classes == 2 else Softmax()
    rows = Judged(None, np.arange(30), y, f, weight)
    scores = label_scores(f, loss)[np.arange(30), label]
    for given, expected in ((None, weight), (of_class, weight / of_class[label])):
        radii = label_radii(rows, loss, given)
        for level in (0.2, 0.5, 0.9):
            assert radii.at(level)[0] == order_statistic(scores, expected, level)
    assert label_radii(Judged(None, np.arange(0), y[:0], f[:0], weight[:0]), loss, None) is None


@pytest.mark.parametrize("symmetric", [True, False])
def test_bands_hold_order_statistics_and_root_mean_squares(symmetric):
    bands = bands_of(SCORES, SIZE, WEIGHT, constant_spread(2), symmetric)
    for output in range(2):
        for level in (0.1, 0.5, 0.9):
            below, above = SCORES[:, output] * -1, SCORES[:, output]
            if symmetric:
                below = above = np.abs(SCORES[:, output])
            assert bands.below.at(level)[output] == order_statistic(below, WEIGHT, level)
            assert bands.above.at(level)[output] == order_statistic(above, WEIGHT, level)
    assert bands.both is symmetric
    share = WEIGHT[:, None] / WEIGHT.sum()
    assert_allclose(bands.deviation, np.sqrt((share * SCORES**2).sum(axis=0)), rtol=1e-12)
    assert_allclose(bands.typical, np.sqrt((share * SIZE**2).sum(axis=0)), rtol=1e-12)


def test_the_usual_size_is_at_most_half_more_than_errors_over_scores():
    size = np.ones((40, 1))
    size[0] = 1e4
    scores = SCORES[:, :1].copy()
    scores[0] = 1e-9
    bands = bands_of(scores, size, np.ones(40), constant_spread(1), True)
    assert_allclose(bands.typical, 1.5 * np.sqrt(np.mean((scores * size) ** 2) / np.mean(scores**2)), rtol=1e-12)
    exact = bands_of(np.zeros((40, 1)), size, np.ones(40), constant_spread(1), True)
    assert_allclose(exact.typical, np.sqrt(np.mean(size**2)), rtol=1e-12)
    assert exact.deviation == 0


def test_bands_of_one_width_are_of_the_errors_themselves():
    y, f = RNG.standard_normal((30, 1)), RNG.standard_normal((30, 1))
    rows = Judged(None, np.arange(30), y, f, np.ones(30))
    bands = bands_of_one_width(rows, Squared())
    assert bands.above.at(0.5)[0] == np.sort(np.abs(y - f).ravel())[15]
    assert bands.spread.model is None
    assert_array_equal(bands.typical, [1.0])
    assert_allclose(bands_of_one_width(rows, Pinball(0.3)).above.at(0.5)[0], np.sort((y - f).ravel())[15])
    nothing = Judged(None, np.arange(0), y[:0], f[:0], np.ones(0))
    assert bands_of_one_width(nothing, Squared()) is None
    assert error_bands(nothing, Squared(), np.ones(2)) is None


def test_bands_of_rows_held_out_are_of_errors_over_the_spread_without_their_fold():
    Z, error, weight = noisy_rows()
    X, f = np.vstack([np.zeros((7, 3)), Z[:, 1:]]), Z[:, :1]
    bands = error_bands(Judged(X, np.arange(7, 407), f + error, f, weight), Squared(), np.ones(3))
    spread, size = calibration._fit_spread(inputs_of(X[7:], f, np.arange(3)), error, weight, np.arange(3), ())
    assert_allclose(bands.spread.at(X, np.zeros((407, 1))), spread.at(X, np.zeros((407, 1))), rtol=1e-12)
    for level in (0.2, 0.9):
        assert_allclose(bands.above.at(level)[0], order_statistic(np.abs(error / size)[:, 0], weight, level), rtol=1e-9)


@pytest.mark.parametrize("n_fitted", [99, 100])
def test_half_of_the_rows_fit_a_spread_and_the_others_judge_it_unless_they_are_few(n_fitted):
    Z, error, weight = noisy_rows()
    half = folds_of(Z, 2) == 0
    weight[np.flatnonzero(half)[n_fitted:]] = 0
    weight[np.flatnonzero(~half)[:5]] = 0
    spread, judges = fit_spread_apart(Z, error, weight, np.arange(3))
    if n_fitted < 100:
        assert spread.model is None
        assert_array_equal(judges, weight > 0)
        return
    assert_array_equal(judges, (weight > 0) & ~half)
    fitted = (weight > 0) & half
    alone = calibration._fit_spread(Z[fitted], error[fitted], weight[fitted], np.arange(3), ())[0]
    assert spread.model is not None
    assert_array_equal(spread.of_inputs(Z), alone.of_inputs(Z))
    assert fit_spread_apart(Z[fitted], error[fitted], weight[fitted], np.arange(3))[0].model is None  # nothing to judge


def test_a_spread_is_of_logarithms_of_errors_above_three_tenths_of_the_median():
    Z, error, weight = noisy_rows()
    order = np.argsort(np.abs(error[:, 0]))
    middle = np.abs(error[order, 0])[np.argmax(np.cumsum(weight[order]) >= weight.sum() / 2)]
    log_size = np.log(np.maximum(np.abs(error), 0.3 * middle))
    model, left_out = calibration._additive(Z, log_size, weight)
    spread, size = calibration._fit_spread(Z, error, weight, np.arange(3), ())
    assert_allclose(size, np.exp(left_out), rtol=1e-12)
    assert_array_equal([spread.least, spread.most], [left_out.min(axis=0), left_out.max(axis=0)])
    between = np.clip(model.decision(Z), left_out.min(), left_out.max())
    assert_allclose(spread.of_inputs(Z), np.exp(between), rtol=1e-12)
    few = calibration._fit_spread(Z[:99], error[:99], weight[:99], np.arange(3), ())
    enough = calibration._fit_spread(Z[:100], error[:100], weight[:100], np.arange(3), ())
    assert [found[0].model is None for found in (few, enough)] == [True, False]
    assert_array_equal(few[1], np.ones((99, 1)))
    several = [calibration._fit_spread(Z, np.tile(error, n), weight, np.arange(3), ())[0].model for n in (4, 5)]
    assert [model is None for model in several] == [False, True]
    exact = np.where(np.arange(400)[:, None] < 300, 0.0, error)
    assert calibration._fit_spread(Z, exact, weight, np.arange(3), ())[0].model is None


def test_sizes_left_out_follow_the_unit_of_the_errors_and_noise_has_one_size():
    Z, error, weight = noisy_rows()
    log_size = np.log(np.abs(error))
    first, moved = (calibration._additive(Z, target, weight)[1] for target in (log_size, 3 + 2 * log_size))
    assert_allclose(moved, 3 + 2 * first, rtol=1e-6)
    about = log_size - np.average(log_size, axis=0, weights=weight)
    assert np.average((log_size - first) ** 2, axis=0, weights=weight) < 0.7 * np.average(
        about**2, axis=0, weights=weight
    )
    noise = np.random.default_rng(3).standard_normal((400, 1))
    assert calibration._additive(Z, noise, weight) is None


def test_fifteen_columns_whose_quarters_tell_sizes_apart_are_read():
    rng = np.random.default_rng(11)
    X, weight = rng.standard_normal((300, 20)), rng.uniform(0.5, 2, 300)
    X[:, ::2] = X[:, ::2] > rng.uniform(-1.5, 1.5, 10)  # of two values, some of them rare
    log_size = X @ rng.uniform(0, 1, (20, 2)) + [0.5, 30.0] + 0.1 * rng.standard_normal((300, 2))
    shares = np.zeros(20)
    for column in range(20):
        quarter = np.digitize(X[:, column], np.quantile(X[:, column], (0.25, 0.5, 0.75)), right=True)
        for output in range(2):
            mean = np.average(log_size[:, output], weights=weight)
            total = weight @ (log_size[:, output] - mean) ** 2
            for some in (quarter == group for group in np.unique(quarter)):
                of_group = np.average(log_size[some, output], weights=weight[some])
                shares[column] += weight[some].sum() * (of_group - mean) ** 2 / total
    assert_array_equal(calibration._telling(X, log_size, weight), np.sort(np.argsort(-shares)[:15]))
    assert_array_equal(calibration._telling(X[:, :15], log_size, weight), np.arange(15))


def test_steps_of_a_spread_alone_are_kept_out_of_the_log(caplog):
    log = logging.getLogger("rflaf")
    with caplog.at_level(logging.INFO, "rflaf"):
        with calibration._unlogged():
            log.info("a step")
            log.warning("a warning")
            other = Thread(target=log.info, args=("a step of another fit",))
            other.start()
            other.join()
        log.info("the next step")
    assert caplog.messages == ["a warning", "a step of another fit", "the next step"]


def test_codes_are_read_as_cross_fitted_means_of_the_sizes_at_their_levels():
    rng = np.random.default_rng(5)
    code = rng.integers(0, 4, 200)
    Z = np.column_stack([rng.standard_normal((200, 2)), code])
    log_size, weight = rng.standard_normal((200, 2)) + code[:, None], rng.uniform(0.5, 2, 200)
    found, of_level = calibration._with_sizes(Z, np.array([1, 2]), np.array([0, 8]), [0] * 8 + [6], log_size, weight)
    assert_array_equal(found[:, :2], Z[:, :2])
    assert list(of_level) == [8]
    folds, size = folds_of(Z, N_FOLDS), log_size.mean(axis=1)

    def means(kept):
        share = weight[kept] / weight.mean()
        n, total = (np.bincount(code[kept], part, 6) for part in (share, share * size[kept]))
        return shrunken_means(n, total[:, None], np.array([share @ size[kept] ** 2]))[:, 0]

    assert_allclose(of_level[8], means(np.ones(200, bool)), rtol=1e-9)
    for fold in range(N_FOLDS):
        assert_allclose(found[folds == fold, 2], means(folds != fold)[code[folds == fold]], rtol=1e-9)
    for levels in ((), [0] * 9):
        unchanged, none = calibration._with_sizes(Z, np.array([1, 2]), np.array([0, 8]), levels, log_size, weight)
        assert unchanged is Z
        assert none == {}
