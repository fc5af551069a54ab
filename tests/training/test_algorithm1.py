"""The whole method: known activations recovered, and what must not change a model does not change it."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np
import pytest
import scipy.sparse as sp
from data import sine_rows
from settings import PAPER, limited
from sklearn.linear_model import Ridge

from rflaf import RFLAFRegressor
from rflaf.errors import InvalidParameterError, MemoryBudgetError, StopReason
from rflaf.functions.bases import Basis, BSplineBasis, Pieces, RBFBasis, fit_function
from rflaf.rows.blocks import ArraySource, array_source
from rflaf.rows.executors import ThreadExecutor
from rflaf.rows.folds import folds_of
from rflaf.training import ridge_rule
from rflaf.training.final_fit import FitResult
from rflaf.training.solvers.shared_activation import Search
from rflaf.training.specification import FitSpec
from rflaf.training.train import LEAST_REFINED_ROWS, train_model

pytestmark = pytest.mark.usefixtures("small_pool")
# A ridge of this size keeps the search for the activation from enlarging differences of rounding.
PLAIN = FitSpec(n_components=30, bandwidth=1.0, alpha=1e-3)
LEVERAGE = replace(PLAIN, sampling="leverage", pool_size=80)
REFINED = FitSpec(n_components=8, refined=True, per_component=True)

each_sampling = pytest.mark.parametrize("spec", [PLAIN, LEVERAGE], ids=["plain", "leverage"])
each_model = pytest.mark.parametrize("spec", [PLAIN, LEVERAGE, REFINED], ids=["plain", "leverage", "refined"])
each_intercept = pytest.mark.parametrize("intercept", [True, False], ids=["intercept", "origin"])


def fit(X, y, spec: FitSpec = PLAIN, weight=None, n_workers: int = 1, seed: int = 0) -> FitResult:
    with ThreadExecutor(n_workers) as executor:
        return train_model(array_source(X, y, weight), spec, np.random.default_rng(seed), executor)


def assert_same_bits(one: FitResult, other: FitResult) -> None:
    pairs = [
        (one.model.directions.W, other.model.directions.W),
        (one.model.directions.importance, other.model.directions.importance),
        (one.model.activation.coefficients, other.model.activation.coefficients),
        (one.model.activation.covariance, other.model.activation.covariance),
        (one.model.v, other.model.v),
        (one.model.intercept, other.model.intercept),
        (one.trace, other.trace),
        (one.model.last_layer.equations.moments, other.model.last_layer.equations.moments),
        (one.column_importance, other.column_importance),
    ]
    for left, right in pairs:
        np.testing.assert_array_equal(left, right)
    assert (one.alpha, one.bandwidth) == (other.alpha, other.bandwidth)


# Recovery of known activations

N_FEATURES, N_COMPONENTS = 5, 20
SHAPES = {
    "sin": lambda z: np.sin(2 * z),
    "tanh": lambda z: np.tanh(2 * z),
    "triangle": lambda z: np.maximum(1 - np.abs(z), 0),
}
# Projections of a radial basis stay inside its interval, outside of which it cannot follow the clipped shapes.
SPREAD = {BSplineBasis: 1.0, RBFBasis: 1.4}
FAMILIES: dict[str, Basis] = {
    "bspline": BSplineBasis(24),
    "rbf": RBFBasis(24),
    "linear": BSplineBasis(25, degree=1),
    "fine bspline": BSplineBasis(96),  # a kink needs cells as fine as the error allowed
    "fine rbf": RBFBasis(96),
}


def recover(shape: str, family: str, intercept: bool):
    """Error of the activation learned from a target of the model's own form, that of the basis, and R2 of new rows."""
    rng = np.random.default_rng(10)
    X, X_test = (rng.uniform(-1, 1, (n, N_FEATURES)) for n in (3000, 2000))
    sigma = lambda z: SHAPES[shape](np.clip(z, -3, 3))  # noqa: E731
    model = RFLAFRegressor(
        N_COMPONENTS, basis=FAMILIES[family], bandwidth=SPREAD[type(FAMILIES[family])] * N_FEATURES**0.5,
        fit_intercept=intercept, random_state=0, **PAPER,
    )  # fmt: skip
    directions = limited(model.set_params, max_iter=1000, tol=0.5).fit(X, X[:, 0]).model_.directions
    v = rng.standard_normal(N_COMPONENTS) / np.sqrt(N_COMPONENTS)
    y, y_test = (sigma(rows @ directions.W + directions.offset) @ v for rows in (X, X_test))
    limited(model.set_params, max_iter=1000, tol=1e-6).fit(X, y)
    np.testing.assert_array_equal(model.directions_, directions.W)
    projections = X @ directions.W + directions.offset
    low, high = np.clip(np.quantile(projections, [0.005, 0.995]), -3, 3)
    z = np.linspace(low, high, 400)
    learned, truth = model.activation_(z), sigma(z)
    columns = np.stack([learned, np.ones_like(z)][: 1 + intercept], axis=1)
    nearest = columns @ np.linalg.lstsq(columns, truth, rcond=None)[0]
    best = model.activation_.basis.values(z) @ fit_function(FAMILIES[family], sigma)
    error, unavoidable = (np.abs(fitted - truth).max() / np.ptp(truth) for fitted in (nearest, best))
    return error, unavoidable, model.score(X_test, y_test)


@pytest.mark.slow
@each_intercept
@pytest.mark.parametrize(
    ("shape", "family"),
    [
        *[(shape, family) for shape in SHAPES for family in ("bspline", "rbf") if shape != "triangle"],
        *[("triangle", family) for family in ("linear", "fine bspline", "fine rbf")],
    ],
)
def test_a_known_activation_is_recovered(shape, family, intercept):
    error, _, score = recover(shape, family, intercept)
    assert error < 0.02
    assert score > 0.9999


@each_intercept
@pytest.mark.parametrize("family", ["bspline", "rbf"])
def test_a_kink_is_recovered_as_well_as_a_smooth_basis_can(family, intercept):
    error, unavoidable, score = recover("triangle", family, intercept)
    assert unavoidable > 0.04
    assert error < unavoidable + 0.02
    assert score > 0.99


# A basis of one function


@dataclass(frozen=True)
class FixedActivation:
    """One function of a B-spline basis: there is no activation to learn."""

    coefficients: tuple[float, ...]
    inner: BSplineBasis
    n_basis: int = 1
    interval: tuple[float, float] = (-3.0, 3.0)

    def values(self, z):
        return self.inner.values(z) @ np.array(self.coefficients)[:, None]

    def slopes(self, z):
        return self.inner.slopes(z) @ np.array(self.coefficients)[:, None]

    def penalty(self):
        return np.zeros((1, 1))

    def pieces(self, a=None, tolerance=1e-6) -> Pieces:
        pieces = self.inner.pieces()
        return replace(pieces, coefficients=pieces.table(np.array(self.coefficients)).transpose(1, 0, 2))


def fixed_tanh() -> FixedActivation:
    inner = BSplineBasis(16)
    return FixedActivation(tuple(fit_function(inner, lambda z: np.tanh(2 * z))), inner)


@each_intercept
@each_sampling
def test_a_basis_of_one_function_reduces_to_a_fixed_activation_ridge(spec, intercept):
    X, y = sine_rows(n_outputs=2)
    basis = fixed_tanh()
    result = fit(X, y, replace(spec, basis=basis, intercept=intercept))
    directions = result.model.directions
    Z = basis.values(X @ directions.W + directions.offset)[..., 0] * directions.importance
    Z /= np.sqrt(np.mean(Z**2))
    ridge = Ridge(alpha=spec.alpha * directions.n_draws * len(X), fit_intercept=intercept, solver="svd").fit(Z, y)
    np.testing.assert_allclose(result.model.decision(X), ridge.predict(Z), rtol=1e-7, atol=1e-7)


# The last line of the algorithm


@each_intercept
@each_sampling
@pytest.mark.parametrize("weighted", [False, True])
def test_output_weights_are_the_ridge_on_the_features(spec, intercept, weighted):
    X, y = sine_rows(n_outputs=2)
    weight = np.random.default_rng(5).uniform(0.2, 2, len(X)) if weighted else None
    result = fit(X, y, replace(spec, intercept=intercept), weight)
    Z, total = result.model.features(X), len(X) if weight is None else weight.sum()
    ridge = Ridge(alpha=result.alpha * result.model.directions.n_draws * total, fit_intercept=intercept, solver="svd")
    ridge.fit(Z, y, sample_weight=weight)
    np.testing.assert_allclose(result.model.v, ridge.coef_.T, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(result.model.decision(X), ridge.predict(Z), atol=1e-7)


@each_sampling
def test_alpha_is_kept_where_given_and_found_where_not(spec):
    X, y = sine_rows()
    assert fit(X, y, spec).alpha == pytest.approx(spec.alpha, rel=1e-12)
    assert fit(X, y, replace(spec, alpha=None)).alpha > 0
    assert fit(X, y, replace(spec, alpha=0.0)).alpha == 0


@each_intercept
def test_an_alpha_that_is_chosen_has_the_lowest_leave_one_out_error(intercept):
    X, y = sine_rows(300)
    result = fit(X, y, replace(PLAIN, alpha=None, intercept=intercept))
    Z, n = result.model.features(X), 300

    def leave_one_out(ridge: float) -> float:
        columns = np.hstack([Z, np.ones((n, 1))]) if intercept else Z
        penalty = n * ridge * np.eye(30, columns.shape[1])
        hat = columns @ np.linalg.solve(columns.T @ columns + penalty.T @ penalty / (n * ridge), columns.T)
        return float(np.sum(((y - hat @ y) / (1 - np.diagonal(hat))[:, None]) ** 2))

    found = result.terms.ridge
    assert leave_one_out(found) <= min(leave_one_out(found * step) for step in (0.1, 0.3, 3.2, 10))


@pytest.fixture
def held_out_ridges(monkeypatch):
    """Ridges are chosen on rows held out even for few unknowns and few rows."""
    monkeypatch.setattr(ridge_rule, "_FEW_UNKNOWNS", 10)
    monkeypatch.setattr(ridge_rule, "_FEW_ROWS", 100)


@each_intercept
@pytest.mark.usefixtures("held_out_ridges")
def test_with_many_unknowns_alpha_has_the_lowest_error_on_rows_held_out_by_content(intercept):
    X, y = sine_rows(300)
    result = fit(X, y, replace(PLAIN, alpha=None, intercept=intercept))
    Z, held_out = result.model.features(X), folds_of(X, 5, X.std(axis=0)) == 0

    def error(ridge: float) -> float:
        model = Ridge(ridge * np.count_nonzero(~held_out), fit_intercept=intercept)
        return float(np.mean((model.fit(Z[~held_out], y[~held_out]).predict(Z[held_out]) - y[held_out].ravel()) ** 2))

    found = result.terms.ridge
    # The grid of ridges has an end, beyond which errors may fall by a little more.
    assert error(found) <= 1.001 * min(error(found * step) for step in (0.1, 0.3, 3.2, 10))


@pytest.mark.usefixtures("held_out_ridges")
def test_the_alpha_of_rows_held_out_knows_neither_blocks_nor_repetitions():
    X, y = sine_rows(200)
    copies = np.random.default_rng(1).integers(1, 4, 200)
    spec = replace(PLAIN, alpha=None)
    one = fit(X, y, spec, weight=copies.astype(float))
    assert fit(np.repeat(X, copies, axis=0), np.repeat(y, copies, axis=0), spec).alpha == pytest.approx(one.alpha)
    with ThreadExecutor(1) as executor:
        source = ArraySource(X, y, copies.astype(float), block_rows=17)
        assert train_model(source, spec, np.random.default_rng(0), executor).alpha == pytest.approx(one.alpha)


@pytest.mark.usefixtures("held_out_ridges")
def test_of_many_rows_a_sample_is_held_out(monkeypatch):
    monkeypatch.setattr(ridge_rule, "JUDGED_ROWS", 50)
    X, y = sine_rows(400)
    assert fit(X, y, replace(PLAIN, alpha=None)).alpha > 0


@pytest.mark.usefixtures("held_out_ridges")
def test_rows_that_are_all_the_same_leave_none_to_hold_out():
    X = np.ones((300, 3))
    assert np.isfinite(fit(X, X[:, :1], replace(PLAIN, alpha=None)).model.decision(X)).all()


def test_a_bandwidth_that_is_chosen_gives_projections_unit_spread():
    X, y = sine_rows()
    result = fit(X * [1, 10, 100], y, replace(PLAIN, bandwidth=None))
    assert np.median(np.std(X * [1, 10, 100] @ result.model.directions.W, axis=0)) == pytest.approx(1, rel=1e-9)


def test_how_rare_an_indicator_is_does_not_change_the_directions():
    X, y = sine_rows()
    weights = []
    for on in (np.arange(700) < 3, np.arange(700) % 2 == 0):
        X[:, 2] = np.where(on, 5.0, 1.0)
        weights.append(fit(X, y).model.directions.W)
    np.testing.assert_array_equal(*weights)
    spread = np.sqrt(np.mean(weights[0] ** 2, axis=1)) * [*X[:, :2].std(axis=0), 4.0]
    np.testing.assert_allclose(spread, 1, rtol=0.4)  # thirty normal numbers each


def test_the_fit_explains_its_rows():
    X, y = sine_rows()
    for spec in (PLAIN, LEVERAGE):
        model = fit(X, y, replace(spec, n_components=60, alpha=None)).model
        assert np.mean((y - model.decision(X)) ** 2) < 0.1 * np.var(y)


# What must not change a model


def least_memory(X, y, spec: FitSpec) -> int:
    with pytest.raises(MemoryBudgetError) as error:
        fit(X, y, replace(spec, memory=1))
    return int(re.search(r"at least (\d+) bytes", str(error.value)).group(1))


@each_sampling
@pytest.mark.parametrize("weighted", [False, True])
def test_any_row_partition_gives_the_same_model(spec, weighted):
    X, y = sine_rows(n_outputs=2)
    weight = np.random.default_rng(5).uniform(0.2, 2, len(X)) if weighted else None
    least = least_memory(X, y, spec)
    models = [fit(X, y, replace(spec, memory=memory), weight).model for memory in (least, 2 * least, None)]
    for model in models[:2]:
        np.testing.assert_allclose(model.decision(X), models[2].decision(X), atol=1e-8)


def test_a_memory_budget_that_is_too_small_says_what_is_needed():
    X, y = sine_rows()
    least = least_memory(X, y, PLAIN)
    fit(X, y, replace(PLAIN, memory=least))
    with pytest.raises(MemoryBudgetError, match=rf"got {least - 1}\. Allow at least {least} bytes"):
        fit(X, y, replace(PLAIN, memory=least - 1))


@each_sampling
@pytest.mark.parametrize("alpha", [None, 1e-3])
def test_the_number_of_threads_does_not_change_a_bit(spec, alpha):
    X, y = sine_rows(2500, n_outputs=2)
    spec = replace(spec, alpha=alpha, bandwidth=None, leverage_rows=1000, memory=least_memory(X, y, spec))
    one = fit(X, y, spec, n_workers=1)
    for n_workers in (2, 3):
        assert_same_bits(fit(X, y, spec, n_workers=n_workers), one)


@pytest.mark.slow
@pytest.mark.parametrize("n_rows", [LEAST_REFINED_ROWS - 1, 500, 4000])
def test_the_number_of_threads_does_not_change_a_bit_of_a_refined_model(n_rows):
    X, y = sine_rows(n_rows, n_outputs=2)
    spec = replace(REFINED, memory=2 * least_memory(X, y, REFINED))
    assert_same_bits(fit(X, y, spec, n_workers=3), fit(X, y, spec, n_workers=1))


@pytest.mark.slow
@each_model
def test_the_same_seed_gives_the_same_bits_and_another_one_does_not(spec):
    X, y = sine_rows()
    assert_same_bits(fit(X, y, spec, seed=3), fit(X, y, spec, seed=3))
    one, other = (fit(X, y, spec, seed=seed).model.decision(X) for seed in (3, 4))
    assert not np.array_equal(one, other)


@each_sampling
@pytest.mark.parametrize("weighted", [False, True])
def test_sparse_rows_equal_dense_rows(spec, weighted):
    X, y = sine_rows(n_outputs=2)
    X[np.abs(X) < 0.5] = 0
    weight = np.random.default_rng(5).uniform(0.2, 2, len(X)) if weighted else None
    dense, sparse = fit(X, y, spec, weight).model, fit(sp.csr_array(X), y, spec, weight).model
    np.testing.assert_allclose(sparse.decision(X), dense.decision(X), atol=1e-8)
    np.testing.assert_allclose(sparse.decision(sp.csr_array(X)), dense.decision(X), atol=1e-8)


@each_sampling
def test_single_precision_is_near_double_precision(spec):
    X, y = sine_rows()
    X = X.astype(np.float32)
    spec = replace(spec, search=Search(tol=1e-7, max_iter=500))
    single, double = fit(X, y, spec).model, fit(X.astype(np.float64), y, spec).model
    np.testing.assert_array_equal(single.directions.n_draws, double.directions.n_draws)
    error = single.decision(X) - double.decision(X.astype(np.float64))
    assert np.sqrt(np.mean(error**2)) < 1e-3 * np.std(y)


def test_whole_weights_equal_repeated_rows():
    X, y = sine_rows(400)
    copies = np.random.default_rng(5).integers(1, 4, 400)
    weighted = fit(X, y, PLAIN, copies.astype(float))
    repeated = fit(np.repeat(X, copies, axis=0), np.repeat(y, copies, axis=0), PLAIN)
    np.testing.assert_allclose(weighted.model.decision(X), repeated.model.decision(X), atol=1e-6)
    np.testing.assert_allclose(
        weighted.model.activation.covariance, repeated.model.activation.covariance,
        atol=1e-3 * np.abs(repeated.model.activation.covariance).max(),
    )  # fmt: skip


def test_rows_of_weight_zero_are_no_rows():
    X, y = sine_rows(400)
    weight = np.ones(400)
    weight[::3] = 0
    kept = weight > 0
    one, other = fit(X, y, PLAIN, weight).model, fit(X[kept], y[kept], PLAIN).model
    np.testing.assert_allclose(one.decision(X), other.decision(X), atol=1e-6)


@each_sampling
def test_the_unit_of_the_target_does_not_matter(spec):
    X, y = sine_rows(n_outputs=2)
    one, other = fit(X, y, spec).model, fit(X, 1e6 * y - 3e7, spec).model
    np.testing.assert_allclose(other.decision(X) / 1e6 + 30, one.decision(X), atol=1e-6)


@each_sampling
def test_the_units_of_the_columns_do_not_matter(spec):
    X, y = sine_rows()
    moved = X * [1e-6, 1.0, 1e6] + [3.0, -100.0, 1e7]
    np.testing.assert_allclose(fit(moved, y, spec).model.decision(moved), fit(X, y, spec).model.decision(X), atol=1e-5)


@pytest.mark.parametrize("constant", [7.0, 0.1])
def test_a_constant_column_has_no_influence(constant):
    X, y = sine_rows(5000)
    X[:, 1] = constant
    model = fit(X, y).model
    moved = X.copy()
    moved[:, 1] = -1e6
    np.testing.assert_array_equal(model.decision(moved), model.decision(X))


# Degenerate tables


@each_sampling
@each_intercept
@pytest.mark.parametrize("constant", [0.0, 0.1, 1e9])
@pytest.mark.parametrize("alpha", [None, 1e-4])
def test_a_constant_target_is_predicted_and_there_is_nothing_to_learn(spec, intercept, constant, alpha):
    X, y = sine_rows()
    result = fit(X, np.full_like(y, constant), replace(spec, intercept=intercept, alpha=alpha))
    if intercept or constant == 0:
        assert result.stop_reason is StopReason.NOTHING_TO_LEARN
        np.testing.assert_allclose(result.model.decision(X), constant, rtol=1e-12)
    assert np.all(np.isfinite(result.model.decision(X)))


@each_model
@pytest.mark.parametrize("alpha", [None, 1e-4])
def test_constant_columns_leave_the_mean(spec, alpha):
    X, y = sine_rows()
    model = fit(np.ones_like(X), y, replace(spec, alpha=alpha, bandwidth=None)).model
    np.testing.assert_allclose(model.decision(np.ones_like(X)), np.full_like(y, y.mean()), rtol=1e-9)


@pytest.mark.parametrize("basis", [BSplineBasis(), RBFBasis()], ids=["bspline", "rbf"])
def test_constant_columns_leave_nothing_to_learn(basis):
    X, y = sine_rows()
    result = fit(np.ones_like(X), y, replace(LEVERAGE, basis=basis, bandwidth=None))
    assert result.stop_reason is StopReason.NOTHING_TO_LEARN
    assert np.abs(result.model.activation.coefficients).max() < 1e6


@each_model
def test_two_rows_are_enough(spec):
    X, y = sine_rows(2)
    assert np.all(np.isfinite(fit(X, y, replace(spec, alpha=None)).model.decision(X)))


def test_a_table_that_overflows_is_refused():
    X, y = sine_rows()
    with pytest.raises(InvalidParameterError, match="variance of every column of X and y must be a finite number"):
        fit(X * 1e200, y)


def test_one_step_is_reported_as_such():
    X, y = sine_rows()
    result = fit(X, y, replace(PLAIN, search=Search(max_iter=1)))
    assert result.stop_reason is StopReason.ITERATIONS


@each_sampling
def test_the_objective_never_rises(spec):
    X, y = sine_rows(n_outputs=2)
    trace = fit(X, y, replace(spec, alpha=None)).trace
    assert np.all(np.diff(trace) <= 1e-12 * trace[0])


# Leverage sampling


def test_leverage_sampling_keeps_its_scores_and_counts_its_draws():
    X, y = sine_rows()
    result = fit(X, y, replace(LEVERAGE, n_components=50, pool_size=60))
    directions, leverage = result.model.directions, result.leverage
    assert leverage.scores.shape == (60,)
    assert leverage.lam == pytest.approx(len(X) ** -0.5)
    assert 0 < leverage.effective_dimension <= 60
    assert directions.n_draws == 50
    assert directions.n_components < 50
    assert result.model.v.shape == (directions.n_components, 1)
    assert np.all(directions.importance > 0)


def test_leverage_scores_are_those_of_the_pool_under_its_activation():
    X, y = sine_rows()
    spec = replace(LEVERAGE, leverage_alpha=1e-2)
    assert fit(X, y, spec).leverage.lam == 1e-2
    whole, sampled = (fit(X, y, replace(spec, leverage_rows=rows)).leverage for rows in (None, 350))
    assert whole.relative_error == 0
    assert 0 < sampled.relative_error < 0.5
    np.testing.assert_allclose(sampled.scores, whole.scores, atol=0.3 * whole.scores.max())


def test_plain_sampling_has_no_scores_and_weights_of_one():
    result = fit(*sine_rows())
    assert result.leverage is None
    np.testing.assert_array_equal(result.model.directions.importance, 1)
    assert result.model.directions.n_draws == result.model.n_components == 30


@pytest.mark.parametrize(
    ("n_components", "pool_size", "expected"), [(10, None, 1000), (300, None, 3000), (6000, None, 6000), (10, 40, 40)]
)
def test_the_pool_is_ten_times_the_width_within_limits(n_components, pool_size, expected):
    assert FitSpec(n_components, sampling="leverage", pool_size=pool_size).n_pool == expected
    assert FitSpec(n_components, pool_size=pool_size).n_pool == n_components


def test_a_source_can_be_anything_that_has_blocks():
    X, y = sine_rows()
    with ThreadExecutor() as executor:
        result = train_model(ArraySource(X, y, None, block_rows=17), PLAIN, np.random.default_rng(0), executor)
    assert_same_bits(result, fit(X, y, PLAIN))
