"""Greedy selection against brute force, its promises as properties, and the estimators that use it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from settings import PAPER

from rflaf import GreedySelection, LeverageSampling, RFLAFRegressor
from rflaf.errors import InvalidParameterError
from rflaf.model.greedy import Selection, WidthPath, nested_errors, select_greedily, width_grid
from rflaf.model.normal_equations import NormalEquations

seeds = st.integers(0, 2**32 - 1)
each_intercept = pytest.mark.parametrize("intercept", [True, False], ids=["intercept", "origin"])
only_steps_may_run_out = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def some_pool(n_rows: int = 40, pool_size: int = 9, n_outputs: int = 1, seed: int = 0):
    """Correlated components of unlike length (n_rows, pool_size), and targets that some of them explain in part."""
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((n_rows, pool_size)) @ rng.standard_normal((pool_size, pool_size)) + 0.5
    Z *= rng.uniform(0.2, 5, pool_size)
    y = Z @ (rng.standard_normal((pool_size, n_outputs)) * (rng.random((pool_size, 1)) < 0.5))
    return Z, y / (y.std() or 1.0) + rng.standard_normal((n_rows, n_outputs))


def equations_of(Z, y, weight=None) -> NormalEquations:
    design = np.hstack([Z, np.ones((Z.shape[0], 1)), y]).T
    if weight is not None:
        design = design * np.sqrt(weight)
    return NormalEquations.from_design(np.ascontiguousarray(design), y.shape[1], weight)


def select(Z, y, n_components: int, ridge: float = 0.0, intercept: bool = True, weight=None) -> Selection:
    return select_greedily(equations_of(Z, y, weight), n_components, ridge, intercept)


def refitted_error(Z, y, kept: list[int], ridge: float, intercept: bool, weight=None) -> float:
    """min over v, b of 1/n |y - b - Z v|^2 + ridge |v|^2 on the components kept, by least squares on the rows."""
    w = np.ones(len(y)) if weight is None else weight
    w = w / w.sum()
    Z = Z[:, kept]
    if intercept:
        Z, y = Z - w @ Z, y - w @ y
    rows = np.vstack([np.sqrt(w)[:, None] * Z, np.sqrt(ridge) * np.eye(len(kept))])
    targets = np.vstack([np.sqrt(w)[:, None] * y, np.zeros((len(kept), y.shape[1]))])
    v = np.linalg.lstsq(rows, targets, rcond=None)[0] if kept else np.zeros((0, y.shape[1]))
    return float(np.sum((targets - rows @ v) ** 2))


def brute_force(Z, y, n_components: int, ridge: float, intercept: bool, weight=None):
    """Forward selection that refits every candidate at every step."""
    order: list[int] = []
    errors = [refitted_error(Z, y, [], ridge, intercept, weight)]
    for _ in range(n_components):
        candidates = [j for j in range(Z.shape[1]) if j not in order]
        trials = [refitted_error(Z, y, [*order, j], ridge, intercept, weight) for j in candidates]
        order.append(candidates[int(np.argmin(trials))])
        errors.append(min(trials))
    return np.array(order), np.array(errors)


# The path


def test_orthogonal_components_are_taken_by_the_size_of_their_projections():
    rng = np.random.default_rng(0)
    Z = np.linalg.qr(rng.standard_normal((20, 6)))[0] * rng.uniform(0.1, 10, 6)
    y = rng.standard_normal((20, 1))
    gain = (Z.T @ y)[:, 0] ** 2 / np.sum(Z**2, axis=0) / 20
    selection = select(Z, y, 6, intercept=False)
    np.testing.assert_array_equal(selection.order, np.argsort(-gain))
    expected = np.mean(y**2) - np.concatenate([[0], np.cumsum(np.sort(gain)[::-1])])
    np.testing.assert_allclose(selection.errors, expected, rtol=1e-10)


@each_intercept
@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("ridge", [0.0, 0.3, 10.0])
@pytest.mark.parametrize(("pool_size", "seed"), [(6, 0), (8, 1), (9, 2), (12, 3), (12, 4)])
def test_the_path_is_that_of_brute_force(pool_size, seed, ridge, n_outputs, intercept):
    Z, y = some_pool(40, pool_size, n_outputs, seed)
    selection = select(Z, y, pool_size, ridge, intercept)
    order, errors = brute_force(Z, y, pool_size, ridge, intercept)
    np.testing.assert_array_equal(selection.order, order)
    np.testing.assert_allclose(selection.errors, errors, rtol=1e-8)


@each_intercept
@pytest.mark.parametrize("ridge", [0.0, 0.3])
def test_weighted_rows_are_selected_as_by_brute_force(ridge, intercept):
    Z, y = some_pool(40, 8, 2, 5)
    weight = np.random.default_rng(5).exponential(size=40)
    selection = select(Z, y, 8, ridge, intercept, weight)
    order, errors = brute_force(Z, y, 8, ridge, intercept, weight)
    np.testing.assert_array_equal(selection.order, order)
    np.testing.assert_allclose(selection.errors, errors, rtol=1e-8)


@each_intercept
def test_the_errors_are_the_residuals_of_the_systems_own_solutions(intercept):
    Z, y = some_pool(60, 12, 2, 6)
    equations = equations_of(Z, y)
    selection = select_greedily(equations, 7, 0.0, intercept)
    for k in range(1, 8):
        solution = equations.take(selection.order[:k]).system(intercept).solve(0.0)
        assert selection.errors[k] == pytest.approx(solution.mean_residual.sum(), rel=1e-9)


def test_whole_weights_equal_repeated_rows():
    Z, y = some_pool()
    copies = np.random.default_rng(1).integers(1, 4, len(y))
    weighted = select(Z, y, 6, weight=copies.astype(float))
    repeated = select(np.repeat(Z, copies, axis=0), np.repeat(y, copies, axis=0), 6)
    np.testing.assert_array_equal(weighted.order, repeated.order)
    np.testing.assert_allclose(weighted.errors, repeated.errors, rtol=1e-10)
    np.testing.assert_allclose(weighted.gcv, repeated.gcv, rtol=1e-10)


@settings(max_examples=60)
@given(st.integers(2, 30), st.integers(1, 12), st.integers(1, 3), st.sampled_from([0.0, 1e-4, 1.0]), seeds)
def test_the_errors_never_rise_and_no_component_is_taken_twice(n_rows, pool_size, n_outputs, ridge, seed):
    Z, y = some_pool(n_rows, pool_size, n_outputs, seed)
    selection = select(Z, y, pool_size, ridge)
    assert np.all(np.diff(selection.errors) <= 0)
    assert np.all(selection.errors >= 0)
    assert np.unique(selection.order).size == selection.order.size <= pool_size
    assert selection.errors.size == selection.gcv.size == selection.order.size + 1


@settings(max_examples=40)
@given(st.integers(2, 30), st.integers(2, 12), st.booleans(), st.sampled_from([0.0, 1e-4, 1.0]), seeds)
def test_paths_are_nested(n_rows, pool_size, intercept, ridge, seed):
    Z, y = some_pool(n_rows, pool_size, 1, seed)
    whole = select(Z, y, pool_size, ridge, intercept)
    for k in range(1, pool_size):
        part = select(Z, y, k, ridge, intercept)
        np.testing.assert_array_equal(part.order, whole.order[:k])
        np.testing.assert_array_equal(part.errors, whole.errors[: k + 1])
        np.testing.assert_array_equal(part.gcv, whole.gcv[: k + 1])


@settings(max_examples=40)
@given(st.integers(2, 8), seeds)
def test_the_scale_of_a_component_does_not_matter_without_a_ridge(pool_size, seed):
    Z, y = some_pool(40, pool_size, 1, seed)
    powers = 2.0 ** np.random.default_rng(seed).integers(-20, 21, pool_size)
    one, other = select(Z, y, pool_size), select(Z * powers, y, pool_size)
    np.testing.assert_array_equal(one.order, other.order)
    np.testing.assert_allclose(one.errors, other.errors, rtol=1e-9)


# Pools that repeat themselves


@each_intercept
def test_copies_of_a_component_are_taken_once(intercept):
    Z, y = some_pool(40, 5)
    selection = select(np.hstack([Z, 2 * Z, -Z]), y, 15, intercept=intercept)
    assert selection.order.size == 5
    assert np.unique(selection.order % 5).size == 5
    np.testing.assert_allclose(selection.errors, select(Z, y, 5, intercept=intercept).errors, rtol=1e-8)


def test_sums_of_components_already_kept_are_passed_over():
    Z, y = some_pool(40, 4)
    mixed = np.hstack([Z, Z @ np.random.default_rng(0).standard_normal((4, 6))])
    assert select(mixed, y, 10).order.size == 4


def test_constant_components_are_passed_over_with_an_intercept():
    Z, y = some_pool(40, 4)
    Z = np.hstack([np.zeros((40, 1)), Z, np.ones((40, 1))])
    assert sorted(select(Z, y, 6).order) == [1, 2, 3, 4]
    assert sorted(select(Z, y, 6, intercept=False).order) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("n_rows", [7, 40, 163])
@pytest.mark.parametrize("constant", [0.1, 15.737172812619823, -1e6 / 3])
def test_rounding_does_not_make_a_constant_component_useful(constant, n_rows):
    Z, y = some_pool(n_rows, 3)
    selection = select(np.hstack([np.full((n_rows, 2), constant), Z]), y, 5)
    assert sorted(selection.order) == [2, 3, 4]


@pytest.mark.parametrize("seed", range(5))
def test_copies_are_taken_once_from_sums_in_single_precision(seed):
    Z, y = some_pool(200, 5, seed=seed)
    design = np.hstack([Z, 2 * Z, -3 * Z, np.ones((200, 1)), y]).T.astype(np.float32)
    order = select_greedily(NormalEquations.from_design(np.ascontiguousarray(design), 1), 15).order
    assert sorted(order % 5) == [0, 1, 2, 3, 4]


def test_with_a_ridge_copies_come_after_all_others_that_matter():
    rng = np.random.default_rng(0)
    Z = np.linalg.qr(rng.standard_normal((200, 6)))[0]
    selection = select(np.hstack([Z, Z]), Z.sum(axis=1, keepdims=True), 12, 1e-6, intercept=False)
    assert sorted(selection.order[:6] % 6) == [0, 1, 2, 3, 4, 5]


def test_a_pool_wider_than_the_rows_ends_where_the_rows_are_spent():
    Z, y = some_pool(7, 20)
    selection = select(Z, y, 20)
    assert selection.order.size == 6
    assert selection.errors[-1] == pytest.approx(0, abs=1e-10)
    assert select(Z, y, 20, intercept=False).order.size == 7


def test_no_more_components_are_kept_than_there_are():
    Z, y = some_pool(40, 5)
    np.testing.assert_array_equal(select(Z, y, 50).order, select(Z, y, 5).order)


def test_nothing_is_kept_of_a_pool_of_zeros():
    y = np.arange(10.0)[:, None]
    selection = select(np.zeros((10, 3)), y, 3)
    assert selection.order.size == 0
    np.testing.assert_allclose(selection.errors, [y.var()])
    assert selection.best_width() == 1


# Cross-validation on the path


@each_intercept
def test_cross_validation_is_the_error_over_the_square_of_the_share_of_rows_left(intercept):
    Z, y = some_pool(40, 9, 2)
    selection = select(Z, y, 9, intercept=intercept)
    left = 1 - (np.arange(10) + intercept) / 40
    np.testing.assert_allclose(selection.gcv, selection.errors / left**2, rtol=1e-13)


def test_cross_validation_is_infinite_where_no_row_is_left():
    Z, y = some_pool(7, 20)
    gcv = select(Z, y, 20).gcv
    assert np.isfinite(gcv[:-1]).all()
    assert gcv[-1] == np.inf


def test_the_best_width_is_the_smallest_within_the_tolerance_but_at_least_one():
    selection = Selection(np.arange(4), np.zeros(5), np.array([4.0, 2.0, 1.05, 1.0, 1.0]))
    assert [selection.best_width(tolerance) for tolerance in (0.0, 0.04, 0.06, 1.0, 3.0)] == [3, 3, 2, 1, 1]


def test_the_best_width_of_a_few_components_and_noise_is_that_few():
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((5000, 20))
    y = Z[:, [3, 7, 11]] @ [[1.0], [2.0], [-1.5]] + 0.1 * rng.standard_normal((5000, 1))
    selection = select(Z, y, 20)
    assert set(selection.order[:3]) == {3, 7, 11}
    assert selection.best_width(0.01) == 3


# Nested widths, judged on rows held out


def held_out_error(Z, y, kept, ridge: float, intercept: bool, weight=None) -> float:
    """Of the ridge on the rows ``kept``, by least squares; on the other rows."""
    w = np.ones(len(y)) if weight is None else weight
    share = w[kept] / w[kept].sum()
    z_mean, y_mean = (share @ Z[kept], share @ y[kept]) if intercept else (np.zeros(Z.shape[1]), np.zeros(y.shape[1]))
    root = np.sqrt(share)[:, None]
    rows = np.vstack([root * (Z[kept] - z_mean), np.sqrt(ridge) * np.eye(Z.shape[1])])
    targets = np.vstack([root * (y[kept] - y_mean), np.zeros((Z.shape[1], y.shape[1]))])
    v = np.linalg.lstsq(rows, targets, rcond=None)[0]
    residual = y[~kept] - y_mean - (Z[~kept] - z_mean) @ v
    return float(np.average(np.sum(residual**2, axis=1), weights=w[~kept]))


@each_intercept
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_outputs", [1, 3])
def test_nested_errors_are_those_of_refitting_on_the_rows(n_outputs, weighted, intercept):
    Z, y = some_pool(60, 9, n_outputs)
    weight = np.random.default_rng(1).integers(1, 4, 60).astype(float) if weighted else None
    kept = np.arange(60) % 4 != 0
    inside, outside = (
        equations_of(Z[rows], y[rows], None if weight is None else weight[rows]) for rows in (kept, ~kept)
    )
    widths = np.array([1, 4, 9])
    path = nested_errors(inside, outside, widths, intercept)
    np.testing.assert_array_equal(path.widths, widths)
    for width, error in zip(widths, path.errors, strict=True):
        ridges = inside.take(np.arange(width)).system(intercept).ridges()
        errors = [held_out_error(Z[:, :width], y, kept, ridge, intercept, weight) for ridge in ridges]
        assert error == pytest.approx(min(errors), rel=1e-9)


def test_the_error_of_a_width_does_not_depend_on_the_other_widths():
    Z, y = some_pool(60, 9)
    inside, outside = equations_of(Z[:40], y[:40]), equations_of(Z[40:], y[40:])
    whole = nested_errors(inside, outside, np.arange(1, 10)).errors
    np.testing.assert_array_equal(nested_errors(inside, outside, np.array([7, 2])).errors, whole[[6, 1]])


def test_a_target_of_the_first_components_has_no_error_from_there_on():
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((400, 12))
    y = Z[:, :4] @ rng.uniform(1, 2, (4, 1))
    path = nested_errors(equations_of(Z[:300], y[:300]), equations_of(Z[300:], y[300:]), width_grid(12))
    np.testing.assert_array_equal(path.widths, [1, 2, 3, 5, 7, 10, 12])
    assert np.all(path.errors[:3] > 0.5)
    assert np.all(path.errors[3:] < 1e-6)


def test_a_target_of_the_first_components_and_noise_needs_no_more():
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((2000, 30))
    y = Z[:, :5] @ rng.uniform(1, 2, (5, 1)) + rng.standard_normal((2000, 1))
    path = nested_errors(equations_of(Z[:1500], y[:1500]), equations_of(Z[1500:], y[1500:]), np.arange(1, 31))
    assert path.best_width(0.01) == 5
    assert path.errors.min() == pytest.approx(1, abs=0.15)


def test_components_that_are_zero_leave_the_error_of_the_mean():
    y = np.random.default_rng(0).standard_normal((40, 1))
    kept, held_out = (equations_of(np.zeros((20, 3)), y[rows]) for rows in (slice(0, 20), slice(20, 40)))
    path = nested_errors(kept, held_out, np.array([1, 3]))
    np.testing.assert_allclose(path.errors, np.mean((y[20:] - y[:20].mean()) ** 2), rtol=1e-9)
    assert path.best_width() == 1


def test_the_best_nested_width_is_the_smallest_within_the_tolerance():
    path = WidthPath(np.array([1, 5, 10, 50]), np.array([2.0, 1.05, 1.0, 1.01]))
    assert [path.best_width(tolerance) for tolerance in (0.0, 0.02, 0.06, 1.0)] == [10, 10, 5, 1]


@settings(max_examples=60)
@given(st.integers(1, 10_000))
def test_a_grid_of_widths_rises_from_one_to_the_largest_in_steps_of_at_most_two(most):
    widths = width_grid(most)
    assert (widths[0], widths[-1]) == (1, most)
    assert np.all(np.diff(widths) > 0)
    assert np.all(widths[1:] <= 2 * widths[:-1])
    assert widths.size <= 6 * np.log10(most) + 3


# The estimators


def greedy(n_components: int = 12, **others) -> RFLAFRegressor:
    fixed = {**PAPER, "sampling": GreedySelection(60), "random_state": 0}
    return RFLAFRegressor(n_components, **{**fixed, **others})


def test_the_selection_is_kept_only_by_greedy_estimators(easy):
    X, y = easy
    assert RFLAFRegressor(10, random_state=0, **PAPER).fit(X, y).selection_ is None
    assert greedy(10, sampling=LeverageSampling(40)).fit(X, y).selection_ is None
    model = greedy().fit(X, y)
    assert model.selection_.order.shape == (12,)
    assert model.selection_.errors.shape == model.selection_.gcv.shape == (13,)
    assert model.n_components_ == 12
    assert model.leverage_ is None
    np.testing.assert_array_equal(model.importance_, 1)


def test_directions_are_those_of_the_pool_in_the_order_they_were_chosen(easy):
    model = greedy().fit(*easy)
    pool = RFLAFRegressor(60, random_state=0, **PAPER).fit(*easy)
    np.testing.assert_array_equal(model.directions_, pool.directions_[:, model.selection_.order])


@pytest.mark.parametrize("activation", ["shared", "per_component"])
def test_an_automatic_width_is_the_best_on_the_path(easy, activation):
    model = greedy("auto", sampling=GreedySelection(200), activation=activation).fit(*easy)
    selection = model.selection_
    assert 1 <= model.n_components_ == selection.best_width(0.01) < selection.order.size
    np.testing.assert_allclose(selection.errors[0], 1, rtol=1e-9)
    assert model.score(*easy) > 0.95


@pytest.mark.slow
@pytest.mark.parametrize("activation", ["shared", "per_component"])
def test_a_selection_fits_better_than_as_many_components_drawn_plainly(easy, activation):
    X, y = easy
    errors = {
        sampling: np.mean(
            [
                1 - greedy(5, sampling=sampling, activation=activation, random_state=seed).fit(X, y).score(X, y)
                for seed in range(3)
            ]
        )
        for sampling in ("plain", "greedy")
    }
    assert errors["greedy"] < errors["plain"]


@pytest.mark.parametrize("n_outputs", [1, 2])
def test_any_number_of_threads_gives_the_same_selection_bit_for_bit(n_outputs):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((5000, 3))
    y = np.sin(X @ rng.standard_normal((3, n_outputs)))
    one, two = (greedy(alpha=1e-3, n_jobs=n_jobs).fit(X, y) for n_jobs in (1, 2))
    np.testing.assert_array_equal(one.selection_.order, two.selection_.order)
    np.testing.assert_array_equal(one.selection_.errors, two.selection_.errors)
    np.testing.assert_array_equal(one.predict(X), two.predict(X))


def test_a_pool_smaller_than_the_width_is_refused(easy):
    with pytest.raises(InvalidParameterError, match=r"pool_size must be at least n_components = 20 to draw from"):
        greedy(20, sampling=GreedySelection(19)).fit(*easy)
    assert greedy(20, sampling=GreedySelection(20)).fit(*easy).n_components_ == 20


@pytest.mark.parametrize("activation", ["shared", "per_component"])
def test_constant_columns_keep_one_component_and_predict_the_mean(activation):
    y = np.arange(20.0)
    model = greedy(activation=activation).fit(np.full((20, 3), 4.2), y)
    assert model.n_components_ >= 1
    np.testing.assert_allclose(model.predict(np.zeros((3, 3))), y.mean())


@pytest.mark.parametrize("activation", ["shared", "per_component"])
def test_a_selection_of_constant_columns_is_as_long_as_its_errors_say(activation):
    model = greedy(activation=activation).fit(np.full((20, 3), 4.2), np.arange(20.0))
    selection = model.selection_
    assert selection.order.size == model.n_components_
    assert selection.errors.size == selection.gcv.size == selection.order.size + 1


@pytest.mark.parametrize("activation", ["shared", "per_component"])
def test_a_constant_target_is_predicted_everywhere(easy, activation):
    X, _ = easy
    model = greedy(activation=activation).fit(X, np.full(len(X), 7.0))
    np.testing.assert_allclose(model.predict(X), 7.0)


@only_steps_may_run_out
def test_more_components_than_rows_are_selected_and_fitted():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((15, 2))
    y = X[:, 0] + 0.1 * rng.standard_normal(15)
    for activation in ("shared", "per_component"):
        model = greedy(50, activation=activation).fit(X, y)
        assert np.abs(model.predict(X) - y.mean()).max() <= 2 * np.ptp(y)
