"""The regressor under other losses than the squared one: Huber, quantiles, counts, and losses of your own."""

from __future__ import annotations

import pickle
from dataclasses import dataclass

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from refusals import refusal
from scipy.special import expit
from settings import CONVEX, PAPER, limited
from sklearn.base import clone
from sklearn.linear_model import PoissonRegressor, QuantileRegressor
from sklearn.metrics import mean_pinball_loss, r2_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from rflaf import BSplineBasis, GreedySelection, InvalidParameterError, RFLAFRegressor
from rflaf.errors import StopReason
from rflaf.functions.bases import make_basis
from rflaf.functions.losses import Huber, Logistic, Loss, Pinball, Poisson, Softmax, Squared
from rflaf.rows.blocks import ArraySource, Block, SourceView
from rflaf.rows.executors import ThreadExecutor
from rflaf.training import refined, train
from rflaf.training.solvers.refined import recipes
from rflaf.training.specification import FitSpec

pytestmark = pytest.mark.usefixtures("small_pool")
only_steps_may_run_out = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
LOSSES = ("huber", "quantile", "poisson")
SHORT = {"tol": 0.1}  # a short search for the activation
GREEDY = {**CONVEX, "sampling": GreedySelection(40)}
RUNGS = {"shared": PAPER, "per component": CONVEX, "greedy": GREEDY}
each_loss = pytest.mark.parametrize("loss", LOSSES)
each_rung = pytest.mark.parametrize("rung", RUNGS.values(), ids=RUNGS)

RNG = np.random.default_rng(0)
ROWS = RNG.uniform(-2, 2, (150, 2))
SMOOTH = np.sin(1.5 * ROWS[:, 0]) + ROWS[:, 1] ** 2 / 2
TARGET = SMOOTH + 0.1 * RNG.standard_normal(150)
COUNTS = RNG.poisson(np.exp(SMOOTH)).astype(float)


def target(loss) -> np.ndarray:
    return COUNTS if loss == "poisson" or isinstance(loss, Poisson) else TARGET


def quick_regressor(n_components: int = 10, **others) -> RFLAFRegressor:
    """A quick one: random directions, one convex problem, and a penalty that is given."""
    fixed = {**CONVEX, "basis": BSplineBasis(8), "alpha": 1e-5, "random_state": 0}
    return limited(RFLAFRegressor, n_components, **{**fixed, **others})


# The conventions of scikit-learn


@pytest.fixture
def no_rivals(monkeypatch):
    """Refined models only from 200 rows on: a trial of random directions takes longer than all else together."""
    monkeypatch.setattr(refined, "judge_rivals", lambda *_: [])


@pytest.fixture
def few_epochs(monkeypatch, no_rivals):
    """And refined quickly, as is the first fit that finds delta."""
    monkeypatch.setattr(recipes, "_STRAIGHT_EPOCHS", 4)
    monkeypatch.setattr(train, "_PILOT_WIDTH", 8)


def failures(estimator) -> dict[str, str]:
    if estimator.loss != "poisson":
        return {}
    return {"check_regressor_multioutput": "has negative targets, whatever the tag positive_only says"}


@pytest.mark.slow
@only_steps_may_run_out
@pytest.mark.usefixtures("few_epochs")
@parametrize_with_checks(
    [
        RFLAFRegressor(4, basis=BSplineBasis(5), loss="poisson", alpha=1e-3, curves=False, n_jobs=1),
        *(
            limited(RFLAFRegressor, 8, basis=BSplineBasis(5), loss=loss, alpha=1e-5, n_jobs=1, **SHORT, **CONVEX)
            for loss in ("huber", "quantile")
        ),
    ],
    expected_failed_checks=failures,
)
def test_every_check_of_scikit_learn_passes(estimator, check):
    check(estimator)


def test_only_counts_must_not_be_negative():
    for loss in ("squared", "huber", "quantile", Huber(1.0)):
        assert not RFLAFRegressor(loss=loss).__sklearn_tags__().target_tags.positive_only
    for loss in ("poisson", Poisson()):
        assert RFLAFRegressor(loss=loss).__sklearn_tags__().target_tags.positive_only
    for nonsense in (-1, None, ["squared"]):  # refused by fit, not by what asks for tags
        assert not RFLAFRegressor(loss=nonsense).__sklearn_tags__().target_tags.positive_only


@pytest.mark.parametrize("loss", [*LOSSES, Huber(0.5), Pinball(0.3, 0.1), Poisson()])
def test_losses_survive_clone_and_pickle(loss):
    quantile = 0.4 if loss == "quantile" else 0.5
    model = clone(quick_regressor(loss=loss, quantile=quantile))
    assert (model.loss, model.quantile) == (loss, quantile)
    model.fit(ROWS, target(loss))
    loaded = pickle.loads(pickle.dumps(model))
    assert_array_equal(loaded.predict(ROWS), model.predict(ROWS))
    assert loaded.loss_ == model.loss_


def test_the_default_is_the_squared_loss():
    named, left_out = (quick_regressor(**loss).fit(ROWS, TARGET).predict(ROWS) for loss in ({"loss": "squared"}, {}))
    assert_array_equal(named, left_out)
    assert_array_equal(quick_regressor(loss=Squared()).fit(ROWS, TARGET).predict(ROWS), named)


# All losses


@each_loss
@each_rung
def test_every_loss_learns_on_every_rung(loss, rung):
    model = quick_regressor(loss=loss, **rung).fit(ROWS, target(loss))
    assert isinstance(model.stop_reason_, StopReason)
    assert r2_score(SMOOTH if loss != "poisson" else np.exp(SMOOTH), model.predict(ROWS)) > 0.75


@each_loss
def test_every_loss_learns_refined_directions(loss, no_rivals):
    rng = np.random.default_rng(1)
    X, new = rng.uniform(-2, 2, (400, 2)), rng.uniform(-2, 2, (1000, 2))

    def mean(rows):
        smooth = np.sin(1.5 * rows[:, 0]) + rows[:, 1] ** 2 / 2
        return np.exp(smooth) if loss == "poisson" else smooth

    y = rng.poisson(mean(X)) if loss == "poisson" else mean(X) + 0.1 * rng.standard_normal(400)
    model = RFLAFRegressor(10, loss=loss, alpha=1e-3, curves=False, random_state=0).fit(X, y)
    assert model.stop_reason_ is StopReason.TRAINED
    assert r2_score(mean(new), model.predict(new)) > 0.9


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@each_loss
def test_predictions_have_the_shape_of_the_targets_and_the_dtype_of_the_rows(loss, dtype):
    rows, y = ROWS.astype(dtype), target(loss)
    for targets in (y, y[:, None], np.column_stack([y, y[::-1], 2 * y])):
        model = quick_regressor(loss=loss).fit(rows, targets)
        assert model.predict(rows).shape == targets.shape
        assert model.predict(rows).dtype == dtype
        assert np.isfinite(model.predict(rows)).all()
        assert model.output_weights_.shape == (*targets.shape[1:], 10)


@pytest.mark.slow
@each_loss
@each_rung
def test_several_targets_are_learned_at_once(loss, rung):
    y = target(loss)
    targets = np.column_stack([y, y[::-1]])
    rows = np.column_stack([ROWS, ROWS[::-1]])
    model = quick_regressor(20, loss=loss, **SHORT, **rung).fit(rows, targets)
    assert r2_score(targets, model.predict(rows)) > 0.4


@each_loss
def test_one_column_of_targets_is_the_same_model_as_a_vector(loss):
    column, vector = (quick_regressor(loss=loss).fit(ROWS, y) for y in (target(loss)[:, None], target(loss)))
    assert_array_equal(column.predict(ROWS)[:, 0], vector.predict(ROWS))


@each_loss
def test_sparse_rows_give_the_model_of_the_same_dense_rows(loss):
    X = ROWS * (np.random.default_rng(2).random(ROWS.shape) < 0.6)
    dense, sparse = (quick_regressor(loss=loss).fit(rows, target(loss)) for rows in (X, sp.csr_array(X)))
    assert_allclose(sparse.predict(sp.csr_array(X)), dense.predict(X), rtol=1e-6, atol=1e-6)


@each_loss
def test_whole_weights_act_as_repeated_rows(loss):
    times = np.random.default_rng(3).integers(0, 4, 150)
    weighted = quick_regressor(loss=loss).fit(ROWS, target(loss), sample_weight=times)
    repeated = quick_regressor(loss=loss).fit(ROWS.repeat(times, axis=0), target(loss).repeat(times))
    assert_allclose(weighted.predict(ROWS), repeated.predict(ROWS), rtol=1e-5, atol=1e-5)


@each_loss
def test_a_row_of_weight_zero_is_as_good_as_absent(loss):
    weight = np.random.default_rng(4).uniform(0.5, 2, 150)
    weight[::3] = 0
    kept = weight > 0
    spoiled = np.where(kept, target(loss), 1e6)
    weighted = quick_regressor(loss=loss).fit(ROWS, spoiled, sample_weight=weight)
    dropped = quick_regressor(loss=loss).fit(ROWS[kept], target(loss)[kept], sample_weight=weight[kept])
    assert_allclose(weighted.predict(ROWS), dropped.predict(ROWS), rtol=1e-5, atol=1e-5)


@each_loss
@pytest.mark.parametrize("rung", [PAPER, CONVEX], ids=["shared", "per component"])
def test_the_number_of_threads_does_not_change_a_bit(loss, rung):
    rng = np.random.default_rng(5)
    X = rng.uniform(-2, 2, (2500, 2))  # several blocks
    y = rng.poisson(np.exp(X[:, 0])).astype(float)
    one, other = (quick_regressor(5, loss=loss, tol=1e-2, n_jobs=n_jobs, **rung).fit(X, y) for n_jobs in (1, 2))
    assert_array_equal(one.output_weights_, other.output_weights_)
    assert_array_equal(one.predict(X), other.predict(X))


@each_loss
@each_rung
def test_a_constant_target_is_predicted_everywhere(loss, rung):
    model = quick_regressor(loss=loss, **rung).fit(ROWS, np.full(150, 5.5))
    assert_allclose(model.predict(3 * ROWS), 5.5, rtol=1e-6)


@each_loss
def test_a_constant_target_is_predicted_everywhere_by_a_refined_model(loss, no_rivals):
    X = np.random.default_rng(6).uniform(-2, 2, (210, 2))
    model = RFLAFRegressor(4, loss=loss, alpha=1e-3, curves=False, random_state=0).fit(X, np.full(210, 5.5))
    assert_allclose(model.predict(3 * X), 5.5, rtol=1e-3)


@each_loss
def test_fitting_leaves_the_targets_as_they_were(loss):
    y = target(loss).copy()
    quick_regressor(loss=loss).fit(ROWS, y)
    assert_array_equal(y, target(loss))


@each_loss
def test_without_an_intercept_there_is_none(loss):
    model = quick_regressor(loss=loss, fit_intercept=False).fit(ROWS, target(loss))
    assert model.intercept_ == 0
    assert r2_score(target(loss), model.predict(ROWS)) > 0.5


# Quantiles


def uneven(n_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Noise that grows with the first column, around a bend."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n_rows, 2))
    return X, np.abs(X[:, 1]) + (0.1 + 0.5 * np.abs(X[:, 0])) * rng.standard_normal(n_rows)


@pytest.mark.slow
@pytest.mark.parametrize("quantile", [0.1, 0.9])
def test_quantiles_of_uneven_noise_cover_their_share_of_new_rows(quantile, no_rivals):
    (X, y), (new, unseen) = uneven(1500, 0), uneven(4000, 1)
    model = RFLAFRegressor(30, loss="quantile", quantile=quantile, random_state=0).fit(X, y)
    below = unseen <= model.predict(new)
    assert below.mean() == pytest.approx(quantile, abs=0.04)
    for quiet in (np.abs(new[:, 0]) < 0.7, np.abs(new[:, 0]) > 1.3):  # where the noise is low, where it is high
        assert below[quiet].mean() == pytest.approx(quantile, abs=0.08)


def test_the_median_of_uneven_noise_is_found():
    (X, y), (new, unseen) = uneven(1500, 0), uneven(4000, 1)
    model = quick_regressor(15, loss="quantile").fit(X, y)
    assert np.mean(unseen <= model.predict(new)) == pytest.approx(0.5, abs=0.04)
    assert np.abs(model.predict(new) - np.abs(new[:, 1])).mean() < 0.12


def test_quantiles_rise_and_each_has_the_lowest_loss_of_its_own():
    X, y = uneven(600, 0)
    levels = (0.1, 0.5, 0.9)
    answers = [quick_regressor(loss="quantile", quantile=level).fit(X, y).predict(X) for level in levels]
    assert answers[0].mean() < answers[1].mean() < answers[2].mean()
    for level, own in zip(levels, answers, strict=True):
        losses = [mean_pinball_loss(y, other, alpha=level) for other in answers]
        assert mean_pinball_loss(y, own, alpha=level) == min(losses)


@hypothesis_settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.floats(0.05, 0.95), st.integers(0, 2**20))
def test_the_share_of_fitted_rows_below_a_quantile_is_that_quantile(quantile, seed):
    """Up to the rows that are met and those within the smoothing: the slope in the intercept is zero."""
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((80, 2)), rng.standard_normal(80)
    off = y - quick_regressor(3, basis=BSplineBasis(5), loss="quantile", quantile=quantile, alpha=1e-2).fit(
        X, y
    ).predict(X)
    near = np.mean(np.abs(off) <= 0.0101 * y.std())
    assert abs(np.mean(off < 0) - quantile) <= near + 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("rung", [PAPER, CONVEX], ids=["shared", "per component"])
@pytest.mark.parametrize(("slope", "shift"), [(1000.0, 0.0), (1.0, 50.0), (1000.0, -3e4), (1e-6, 1e-5)])
@pytest.mark.parametrize("loss", ["huber", "quantile"])
def test_an_affine_map_of_the_target_maps_the_predictions(loss, rung, slope, shift):
    settings = {"loss": loss, "alpha": 1e-3, **rung}
    expected = slope * quick_regressor(**settings).fit(ROWS, TARGET).predict(ROWS) + shift
    mapped = quick_regressor(**settings).fit(ROWS, slope * TARGET + shift).predict(ROWS)
    size = abs(slope) * TARGET.std()
    assert_allclose(mapped, expected, rtol=0, atol=(1e-6 if rung is CONVEX else 1e-3) * size)


def test_the_quantile_of_the_negative_is_the_negative_of_the_other_quantile():
    low = quick_regressor(loss="quantile", quantile=0.2).fit(ROWS, TARGET).predict(ROWS)
    high = quick_regressor(loss="quantile", quantile=0.8).fit(ROWS, -TARGET).predict(ROWS)
    assert_allclose(high, -low, rtol=0, atol=1e-5)


@only_steps_may_run_out
@pytest.mark.parametrize("quantile", [0.5, 0.2])
def test_the_fit_is_the_linear_program_of_its_own_features_up_to_the_smoothing(quantile):
    model = quick_regressor(6, loss="quantile", quantile=quantile, alpha=1e-9, **PAPER).fit(ROWS, TARGET)
    Z = model.transform(ROWS)
    best = QuantileRegressor(quantile=quantile, alpha=0.0, solver="highs").fit(Z, TARGET)
    ours, least = (mean_pinball_loss(TARGET, f, alpha=quantile) for f in (model.predict(ROWS), best.predict(Z)))
    assert least - 1e-9 <= ours <= least + 0.01 * TARGET.std() / 4
    assert_allclose(model.predict(ROWS), best.predict(Z), rtol=0, atol=0.1 * TARGET.std())


@pytest.mark.slow
def test_a_narrow_smoothing_is_nearer_to_the_linear_program():
    spread, gaps = TARGET.std(), []
    for smoothing in (0.3 * spread, 0.03 * spread):
        model = quick_regressor(6, loss=Pinball(0.5, smoothing), alpha=1e-9, **PAPER).fit(ROWS, TARGET)
        Z = model.transform(ROWS)
        best = QuantileRegressor(quantile=0.5, alpha=0.0, solver="highs").fit(Z, TARGET)
        gaps.append(mean_pinball_loss(TARGET, model.predict(ROWS)) - mean_pinball_loss(TARGET, best.predict(Z)))
    assert gaps[0] > gaps[1] >= -1e-9


def test_a_pinball_object_is_the_loss_of_that_name():
    named = quick_regressor(loss="quantile", quantile=0.3).fit(ROWS, TARGET)
    spread = TARGET.std()
    for loss in (Pinball(0.3), Pinball(0.3, 0.01 * spread)):
        model = quick_regressor(loss=loss).fit(ROWS, TARGET)
        assert_allclose(model.predict(ROWS), named.predict(ROWS), rtol=0, atol=1e-6)
    wider = quick_regressor(loss=Pinball(0.3, spread)).fit(ROWS, TARGET)
    assert np.abs(wider.predict(ROWS) - named.predict(ROWS)).max() > 0.01


# Wild targets


@pytest.fixture(scope="module")
def wild():
    """A smooth target, five in a hundred of which are far off: X, y, and what y should have been."""
    rng = np.random.default_rng(7)
    X = rng.uniform(-2, 2, (500, 2))
    truth = np.sin(1.5 * X[:, 0]) + X[:, 1] ** 2 / 2
    y = truth + 0.1 * rng.standard_normal(500)
    y[rng.choice(500, 25, replace=False)] += 60 * (1 + rng.random(25))
    return X, y, truth


@pytest.mark.parametrize("loss", ["huber", "quantile", Huber(0.2)])
@pytest.mark.parametrize("rung", [PAPER, CONVEX], ids=["shared", "per component"])
def test_wild_targets_do_not_pull(loss, rung, wild):
    X, y, truth = wild
    alpha = 1e-5 if rung is CONVEX else 1e-4
    resists, follows = (quick_regressor(15, loss=name, alpha=alpha, **rung).fit(X, y) for name in (loss, "squared"))
    error = [np.sqrt(np.mean((model.predict(X) - truth) ** 2)) for model in (resists, follows)]
    assert error[0] < 0.4
    assert error[1] > 5 * error[0]


def test_wild_targets_do_not_pull_a_refined_model(wild, no_rivals):
    X, y, truth = wild
    settings = {"alpha": 1e-3, "curves": False, "random_state": 0}
    resists, follows = (RFLAFRegressor(10, loss=loss, **settings).fit(X, y) for loss in ("huber", Squared()))
    error = [np.sqrt(np.mean((model.predict(X) - truth) ** 2)) for model in (resists, follows)]
    assert error[0] < 0.6
    assert error[1] > 3 * error[0]


@pytest.mark.parametrize("rung", [PAPER, CONVEX], ids=["shared", "per component"])
def test_a_huber_loss_that_reaches_everywhere_is_the_squared_loss(rung):
    settings = {"alpha": 1e-3, **rung}
    far = quick_regressor(loss=Huber(1e6), **settings).fit(ROWS, TARGET).predict(ROWS)
    squared = quick_regressor(**settings).fit(ROWS, TARGET).predict(ROWS)
    assert_allclose(far, squared, rtol=0, atol=1e-6 if rung is CONVEX else 1e-2)


@pytest.mark.parametrize("delta", [0.05, 1.0])
@pytest.mark.parametrize("factor", [1.0, 100.0])
def test_delta_is_in_the_units_of_the_targets(delta, factor):
    """The slope of the risk is zero for the delta given: no row pulls harder than that."""
    model = quick_regressor(6, loss=Huber(delta * factor), alpha=1e-3, **PAPER).fit(ROWS, factor * TARGET)
    Z, off = model.transform(ROWS), model.predict(ROWS) - factor * TARGET
    pull = 2 * np.clip(off, -delta * factor, delta * factor) / off.size
    size = np.abs(pull).sum()
    assert_allclose(Z.T @ pull + 2 * 1e-3 * 6 * model.output_weights_, 0, atol=1e-6 * size)
    assert abs(pull.sum()) < 1e-6 * size


def test_delta_is_in_the_units_of_each_of_several_targets():
    targets = np.column_stack([TARGET, 100 * TARGET[::-1]])
    model = quick_regressor(6, loss=Huber(0.5), alpha=1e-3, **PAPER).fit(ROWS, targets)
    off = model.predict(ROWS) - targets
    pull = 2 * np.clip(off, -0.5, 0.5) / len(off)
    assert np.all(np.abs(pull.sum(axis=0)) < 1e-5 * np.abs(pull).sum(axis=0))


# Counts


def test_predictions_of_counts_are_the_exponential_of_the_decision():
    model = quick_regressor(loss="poisson").fit(ROWS, COUNTS)
    assert_allclose(model.predict(ROWS), np.exp(model.model_.decision(ROWS)[:, 0]), rtol=1e-12)
    assert model.predict(ROWS).min() > 0
    assert (1e3 * ROWS).max() > 100
    assert model.predict(1e3 * ROWS).min() > 0


@pytest.mark.parametrize("settings", [{}, {"directions": "refined", "curves": False, "alpha": 1e-3}])
def test_means_of_counts_are_near_the_true_ones(settings, no_rivals):
    rng = np.random.default_rng(8)
    X, new = rng.uniform(-2, 2, (1200, 2)), rng.uniform(-2, 2, (1000, 2))

    def mean(rows):
        return np.exp(1 + np.sin(1.5 * rows[:, 0]) + rows[:, 1] / 2)

    model = quick_regressor(12, loss="poisson", **settings).fit(X, rng.poisson(mean(X)))
    assert np.mean(np.abs(model.predict(new) / mean(new) - 1)) < 0.1


@pytest.mark.parametrize("rung", [PAPER, CONVEX], ids=["shared", "per component"])
@pytest.mark.parametrize("factor", [10.0, 1e-3])
def test_counts_times_a_factor_multiply_the_predictions(factor, rung):
    settings = {"loss": "poisson", "alpha": 1e-3, **rung}
    plain, times = (quick_regressor(**settings).fit(ROWS, y).predict(ROWS) for y in (COUNTS, factor * COUNTS))
    assert_allclose(times, factor * plain, rtol=1e-6 if rung is CONVEX else 1e-3)


def test_the_fit_of_counts_is_the_poisson_regression_of_its_own_features():
    """Counts are divided by their mean inside, and so is the penalty."""
    model = quick_regressor(6, loss="poisson", alpha=1e-3, **PAPER).fit(ROWS, COUNTS)
    Z = model.transform(ROWS)
    reference = PoissonRegressor(alpha=2 * 1e-3 * 6, tol=1e-8, max_iter=10_000).fit(Z, COUNTS / COUNTS.mean())
    assert_allclose(model.output_weights_, reference.coef_, rtol=1e-4, atol=1e-5)
    assert_allclose(model.predict(ROWS), COUNTS.mean() * reference.predict(Z), rtol=1e-4)


@hypothesis_settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 2**20), st.floats(-3, 3), st.booleans())
def test_predicted_counts_add_up_to_those_seen(seed, log_mean, weighted):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((60, 2))
    y = rng.poisson(np.exp(log_mean + X[:, 0] / 2)).astype(float)
    y[0] += 1
    weight = rng.uniform(0.1, 2, 60) if weighted else np.ones(60)
    model = quick_regressor(4, basis=BSplineBasis(5), loss="poisson", alpha=1e-3).fit(X, y, sample_weight=weight)
    assert weight @ model.predict(X) == pytest.approx(weight @ y, rel=1e-6)


def test_counts_that_are_all_zero_where_there_is_weight_are_predicted_to_stay_so():
    y, weight = (np.arange(150) < 10).astype(float), (np.arange(150) >= 10).astype(float)
    p = quick_regressor(loss="poisson").fit(ROWS, y, sample_weight=weight).predict(ROWS)
    assert np.isfinite(p).all()
    assert p.max() < 1e-6


def test_counts_need_not_be_whole():
    rates = np.exp(SMOOTH)
    assert r2_score(rates, quick_regressor(loss="poisson").fit(ROWS, rates).predict(ROWS)) > 0.9


# Losses as objects


def test_the_loss_that_was_minimised_is_in_the_units_of_the_targets():
    for factor in (1.0, 1000.0):
        y = factor * TARGET
        pinball = quick_regressor(loss="quantile", quantile=0.3).fit(ROWS, y).loss_
        assert pinball.quantile == 0.3
        assert pinball.smoothing == pytest.approx(0.01 * y.std())
        assert quick_regressor(loss=Huber(0.2 * factor)).fit(ROWS, y).loss_.delta == pytest.approx(0.2 * factor)
        given_one = quick_regressor(loss=Pinball(0.3, 0.5 * factor)).fit(ROWS, y).loss_
        assert (given_one.quantile, given_one.smoothing) == (0.3, pytest.approx(0.5 * factor))
    assert quick_regressor(loss="poisson").fit(ROWS, COUNTS).loss_ == Poisson()
    assert quick_regressor().fit(ROWS, TARGET).loss_ == Squared()


@pytest.mark.parametrize("rung", [PAPER, CONVEX], ids=["shared", "per component"])
def test_the_delta_that_was_found_scales_with_the_targets(rung):
    one, other = (
        quick_regressor(loss="huber", **rung).fit(ROWS, factor * TARGET).loss_.delta for factor in (1.0, 1000.0)
    )
    assert 0.02 < one < 1
    assert other == pytest.approx(1000 * one, rel=1e-2)


class Asymmetric(Loss):
    """(y - f)^2, three times as much where f is too low: an expectile."""

    name = "expectile"

    def _weight(self, f, y):
        return np.where(y > f, 3.0, 1.0)

    def value(self, f, y):
        return np.sum(self._weight(f, y) * (y - f) ** 2, axis=1)

    def slope(self, f, y):
        return -2 * self._weight(f, y) * (y - f)

    def curvature(self, f, y):
        return 2 * self._weight(f, y)

    def constant(self, y, weight):
        return np.average(y, axis=0, weights=weight)


@each_rung
def test_a_loss_of_your_own_works_with_random_directions(rung):
    model = quick_regressor(loss=Asymmetric(), **rung).fit(ROWS, TARGET)
    off = TARGET - model.predict(ROWS)
    assert 3 * np.maximum(off, 0).sum() == pytest.approx(np.maximum(-off, 0).sum(), rel=1e-4)
    assert isinstance(model.loss_, Asymmetric)
    assert r2_score(SMOOTH, model.predict(ROWS)) > 0.7


def test_a_logistic_loss_predicts_the_mean_of_zeros_and_ones():
    y = (np.random.default_rng(9).random(150) < expit(2 * ROWS[:, 0])).astype(float)
    p = quick_regressor(loss=Logistic(), alpha=1e-3).fit(ROWS, y).predict(ROWS)
    assert np.all((p > 0) & (p < 1))
    assert p.mean() == pytest.approx(y.mean(), abs=1e-6)
    assert np.abs(p - expit(2 * ROWS[:, 0])).mean() < 0.15


def test_a_softmax_loss_predicts_shares_that_sum_to_one():
    labels = np.digitize(ROWS[:, 0], [-0.5, 0.5])
    p = quick_regressor(loss=Softmax()).fit(ROWS, np.eye(3)[labels]).predict(ROWS)
    assert_allclose(p.sum(axis=1), 1)
    assert np.mean(p.argmax(axis=1) == labels) > 0.9


# Awkward tables


@pytest.mark.slow
@only_steps_may_run_out
@pytest.mark.parametrize("seed", range(30))
def test_an_awkward_table_is_fitted_and_predicted(seed):
    rng = np.random.default_rng(seed)
    n_rows, n_columns = int(rng.integers(2, 120)), int(rng.integers(1, 5))
    X = rng.standard_normal((n_rows, n_columns)) * rng.choice([1e-8, 1.0, 1e8], n_columns)
    loss = LOSSES[seed % 3]
    if rng.random() < 0.3:
        X[:, 0] = 7.0
    if rng.random() < 0.3:
        X = X[rng.integers(0, n_rows, n_rows)]
    y = rng.poisson(3, n_rows) * rng.choice([1e-6, 1.0, 1e6]) if rng.random() < 0.5 else rng.exponential(1e3, n_rows)
    y[0] = y.max() + 1
    if loss != "poisson":
        y = y - rng.choice([0.0, 10.0])
    rung = list(RUNGS.values())[rng.integers(3)]
    alpha = "auto" if rng.random() < 0.4 else float(rng.choice([0.0, 1e-9, 1.0]))
    rung = {**rung, "sampling": GreedySelection(20)} if rung is GREEDY else rung
    model = quick_regressor(
        int(rng.integers(1, 12)), loss=loss, basis=BSplineBasis(6), alpha=alpha, tol=1e-2,
        fit_intercept=bool(rng.random() < 0.8), **rung,
    )  # fmt: skip
    if loss == "quantile":
        model.set_params(quantile=rng.uniform(0.05, 0.95))
    dtype = rng.choice([np.float32, np.float64])
    model.fit(X.astype(dtype), y)
    assert isinstance(model.stop_reason_, StopReason)
    for rows in (X, 1e3 * X):
        assert np.isfinite(model.predict(rows.astype(dtype))).all()


# What is refused


@pytest.fixture(scope="module")
def stored():
    return pickle.dumps(quick_regressor(loss="quantile").fit(ROWS, TARGET))


def fit_refusal(stored, y=TARGET, sample_weight=None, kind=InvalidParameterError, **parameters):
    estimators = [quick_regressor(**parameters), pickle.loads(stored).set_params(**parameters)]
    return refusal(kind, estimators, lambda model: model.fit(ROWS, y, sample_weight=sample_weight))


@pytest.mark.parametrize("value", [0, 1, -1, 0.0, 1.0, 1.5, np.nan, np.inf, "a", None, True, [0.5, 0.5]])
@pytest.mark.parametrize("directions", ["random", "refined"])
def test_a_quantile_outside_zero_and_one_is_refused(value, directions, stored):
    error = fit_refusal(stored, loss="quantile", quantile=value, directions=directions)
    assert "quantile must be a number between 0 and 1, without either" in str(error)
    assert str(error).endswith("0.5 is the median.")


@pytest.mark.parametrize("loss", ["absolute", "log_loss", "", None, 3, Huber, ["huber"], np.array(["huber", "huber"])])
def test_an_unknown_loss_is_refused(loss, stored):
    error = fit_refusal(stored, loss=loss)
    assert "loss must be 'squared', 'huber', 'quantile', 'poisson', 'gamma', 'tweedie' or a Loss object" in str(error)
    assert str(error).endswith("Use 'squared'.")


@pytest.mark.parametrize("loss", ["poisson", Poisson()])
def test_negative_counts_are_refused(loss, stored):
    error = fit_refusal(stored, COUNTS - 1, loss=loss)
    assert str(error) == "counts must not be negative; got -1.0. Use another loss for such targets."


@pytest.mark.parametrize("y", [np.zeros(150), np.column_stack([COUNTS, np.zeros(150)])], ids=["one", "one of two"])
def test_counts_that_are_all_zero_are_refused(y, stored):
    assert "some counts must be above zero" in str(fit_refusal(stored, y, loss="poisson"))


@pytest.mark.parametrize("loss", [Logistic(), Softmax()])
def test_targets_a_loss_is_not_made_for_are_refused(loss, stored):
    assert f"targets of the {loss.name} loss must be" in str(fit_refusal(stored, loss=loss))


@each_loss
def test_targets_that_are_not_numbers_are_refused(loss, stored):
    y = target(loss).copy()
    y[3] = np.nan
    assert "Input y contains NaN" in str(fit_refusal(stored, y, loss=loss, kind=ValueError))


@pytest.mark.parametrize(
    ("weight", "fragment"),
    [
        (np.where(np.arange(150) == 3, -1.0, 1.0), "Negative values"),
        (np.zeros(150), "sample_weight must have a positive entry"),
        (np.ones(149), "sample_weight.shape == (149,), expected (150,)"),
    ],
    ids=["negative", "zeros", "a row short"],
)
@each_loss
def test_weights_that_cannot_be_used_are_refused(weight, fragment, loss, stored):
    assert fragment in str(fit_refusal(stored, target(loss), sample_weight=weight, loss=loss, kind=ValueError))


@pytest.mark.parametrize("loss", [*LOSSES, Huber(1.0)])
def test_there_is_no_deviation_without_sums_or_rows_held_out(loss):
    model = quick_regressor(loss=loss, directions="random").fit(ROWS, target(loss))
    error = refusal(InvalidParameterError, [model], lambda fitted: fitted.predict(ROWS, return_std=True))
    assert "return_std=True needs errors of rows that the model was not fitted to" in str(error)
    assert str(error).endswith("Call calibrate(X, y) with such rows.")


@pytest.mark.parametrize("loss", [*LOSSES, Huber(1.0)])
def test_there_is_no_pruning_under_another_loss_than_the_squared_one(loss):
    model = quick_regressor(loss=loss).fit(ROWS, target(loss))
    error = refusal(InvalidParameterError, [model], lambda fitted: fitted.prune(3))
    assert "prune needs the sums of a fit under the squared loss" in str(error)
    assert str(error).endswith("Fit with loss='squared'.")


@each_loss
def test_rows_of_another_width_are_refused(loss):
    model = quick_regressor(loss=loss).fit(ROWS, target(loss))
    error = refusal(ValueError, [model], lambda fitted: fitted.predict(ROWS[:, :1]))
    assert "X has 1 features, but RFLAFRegressor is expecting 2 features" in str(error)


# Any partition


@dataclass(frozen=True, slots=True)
class Parts(SourceView):
    """The rows of a source in partitions of their own, whatever blocks are asked for."""

    edges: list[int]

    def __len__(self):
        return len(self.edges) - 1

    def __getitem__(self, index):
        rows = slice(self.edges[index], self.edges[index + 1])
        return Block(self.source.X[rows], self.source.y[rows])

    def with_rows(self, block_rows):
        return self

    def sample(self, n_rows, rng):
        return self.source.sample(n_rows, rng)


@pytest.mark.slow
@pytest.mark.parametrize("n_parts", [1, 2, 7, 40])
@pytest.mark.parametrize("loss", [Huber(), Pinball(0.7)], ids=["huber", "quantile"])
@hypothesis_settings(max_examples=2)
@given(st.integers(0, 2**31), st.booleans())
def test_any_partition_chooses_and_solves_as_the_rows_together(loss, n_parts, seed, per_component):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((2100, 2))  # more than are solved far beyond what is asked
    y = np.sin(2 * X[:, :1]) + 0.1 * rng.standard_normal((2100, 1)) + 5 * (rng.random((2100, 1)) < 0.02)
    basis = make_basis("bspline", 6, (-3.0, 3.0))
    spec = FitSpec(n_components=4, refined=False, per_component=per_component, loss=loss, basis=basis)
    whole, cuts = ArraySource(X, y), rng.choice(np.arange(1, 2100), n_parts - 1, replace=False)
    with ThreadExecutor(1) as executor:
        models = [
            train.train_model(source, spec, np.random.default_rng(0), executor)
            for source in (whole, Parts(whole, [0, *sorted(cuts.tolist()), 2100]))
        ]
    assert models[1].alpha == pytest.approx(models[0].alpha)
    assert_allclose(models[1].model.decision(X), models[0].model.decision(X), rtol=0, atol=1e-6)
