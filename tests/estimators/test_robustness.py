"""Two hundred awkward tables: a fit ends, warns of nothing but too few steps, and predicts sensible numbers."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal
from settings import PAPER

from rflaf import GreedySelection, LeverageSampling, RFLAFRegressor
from rflaf.training.specification import LEAST_REFINED_ROWS

pytestmark = pytest.mark.usefixtures("small_pool")
BASES = ("bspline", "rbf")
COMPACT = [("per_component", "greedy"), ("per_component", "leverage"), ("per_component", "plain"), ("shared", "greedy")]
refined_or_plain = pytest.mark.parametrize("settings", [{}, PAPER], ids=["refined", "plain"])
only_steps_may_run_out = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def awkward_rows(rng: np.random.Generator, least: int = 2) -> np.ndarray:
    """``least`` to 500 rows and 1 to 50 columns of scales 1e-12 to 1e12, some constant, copied or sums of others."""
    n_rows, n_columns = int(np.exp(rng.uniform(np.log(least), np.log(501)))), int(rng.integers(1, 51))
    X = rng.standard_normal((n_rows, n_columns))
    if rng.random() < 0.3:
        X = np.round(X)
    if rng.random() < 0.3:
        X += 10 ** rng.uniform(0, 3)
    if rng.random() < 0.3:
        X[:, rng.random(n_columns) < 0.3] = rng.normal(scale=100)
    if rng.random() < 0.3 and n_columns > 2:
        X[:, 0] = X[:, 1] - 2 * X[:, 2]
        X[:, -1] = X[:, 1]
    if rng.random() < 0.3:
        X = X[rng.integers(0, n_rows, n_rows)]
    return X * 10 ** rng.uniform(-12, 12, n_columns)


def awkward_targets(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A smooth function of one column with noise, of any scale and offset; one or three outputs; or a constant."""
    n_outputs = 1 if rng.random() < 0.75 else 3
    column = X[:, rng.integers(X.shape[1])]
    smooth = np.tanh((column - column.mean()) / (np.ptp(column) or 1.0))
    y = smooth[:, None] + rng.choice([0.0, 0.3, 3.0]) * rng.standard_normal((X.shape[0], n_outputs))
    if rng.random() < 0.1:
        y = np.zeros_like(y)
    y = y * 10 ** rng.uniform(-6, 6) + rng.choice([0.0, 50.0])
    return y[:, 0] if n_outputs == 1 and rng.random() < 0.9 else y


def awkward_weights(n_rows: int, rng: np.random.Generator) -> np.ndarray | None:
    kind = rng.choice(["none", "none", "whole", "any"])
    if kind == "none":
        return None
    weight = rng.integers(0, 4, n_rows).astype(float) if kind == "whole" else rng.exponential(size=n_rows)
    weight[0] = 1.0
    return weight


def awkward_model(rng: np.random.Generator) -> RFLAFRegressor:
    n_components = int(rng.integers(10, 61))
    model = RFLAFRegressor(
        n_components, basis=rng.choice(BASES), fit_intercept=bool(rng.random() < 0.8), random_state=0, **PAPER
    )
    if rng.random() < 0.4:
        model.set_params(sampling=LeverageSampling(int(rng.integers(n_components, 121))))
    if rng.random() < 0.2:
        model.set_params(alpha=rng.choice([0.0, 1e-9, 1e-3, 10.0]))
    return model


def awkward_compact_model(rng: np.random.Generator) -> RFLAFRegressor:
    """One activation a component, or greedy selection, or both."""
    model = awkward_model(rng)
    activation, sampling = COMPACT[rng.integers(len(COMPACT))]
    n_components = int(rng.integers(1, 31))
    sampling = GreedySelection(40) if sampling == "greedy" else sampling
    return model.set_params(n_components=n_components, activation=activation, sampling=sampling)


def awkward_refined_model(rng: np.random.Generator) -> RFLAFRegressor:
    model = RFLAFRegressor(int(rng.integers(1, 17)), fit_intercept=bool(rng.random() < 0.8), random_state=0)
    if rng.random() < 0.3:
        model.set_params(alpha=rng.choice([0.0, 1e-9, 1e-3, 10.0]))
    if rng.random() < 0.3:
        model.set_params(activation="shared")
    if rng.random() < 0.3:
        model.set_params(curves=bool(rng.random() < 0.5))
    return model


def fit_an_awkward_table(seed: int, make_model, least_rows: int = 2) -> None:
    rng = np.random.default_rng(seed)
    X = awkward_rows(rng, least_rows)
    y, weight, model = awkward_targets(X, rng), awkward_weights(X.shape[0], rng), make_model(rng)
    far = X.mean(axis=0) + (np.abs(X).max(axis=0) * 1e3) * rng.choice([-1, 1], size=(5, X.shape[1]))
    dtype = rng.choice([np.float32, np.float64])
    convert = sp.csr_array if rng.random() < 0.2 else np.asarray
    rows, far = convert(X.astype(dtype)), convert(far.astype(dtype))

    model.fit(rows, y, sample_weight=weight)

    near = model.predict(rows)
    assert near.shape == y.shape
    assert near.dtype == dtype
    assert np.isfinite(near).all()
    assert np.isfinite(model.predict(far)).all()
    assert np.isfinite(model.transform(far)).all()
    seen = np.ones(len(y), dtype=bool) if weight is None else weight > 0
    spread = np.ptp(y[seen], axis=0) if model.fit_intercept else np.abs(y[seen]).max(axis=0)
    rounding = 1e-5 * np.abs(y[seen]).max()
    assert np.all(np.abs(near[seen] - y[seen].mean(axis=0)) <= 10 * spread + rounding)


@pytest.mark.slow
@only_steps_may_run_out
@pytest.mark.parametrize("seed", range(200))
def test_an_awkward_table_is_fitted_and_predicted(seed):
    fit_an_awkward_table(seed, awkward_model)


@only_steps_may_run_out
@pytest.mark.parametrize("seed", range(40))
def test_an_awkward_table_is_fitted_and_predicted_by_a_compact_model(seed):
    fit_an_awkward_table(seed, awkward_compact_model)


@pytest.mark.slow
@only_steps_may_run_out
@pytest.mark.parametrize("seed", range(20))
def test_an_awkward_table_is_fitted_and_predicted_by_a_refined_model(seed):
    fit_an_awkward_table(seed, awkward_refined_model, LEAST_REFINED_ROWS)


@pytest.mark.slow
@only_steps_may_run_out
@pytest.mark.parametrize("seed", range(30, 60))
def test_an_awkward_table_of_few_rows_is_fitted_and_predicted_by_default(seed):
    fit_an_awkward_table(seed, awkward_refined_model)


# Single awkward cases


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings", [{}, PAPER, {**PAPER, "sampling": LeverageSampling(40)}], ids=["refined", "plain", "leverage"]
)
@pytest.mark.parametrize("basis", BASES)
@pytest.mark.parametrize("n_rows", [20, LEAST_REFINED_ROWS + 50])
def test_columns_that_are_all_constant_predict_the_mean(basis, settings, n_rows):
    y = np.arange(float(n_rows))
    model = RFLAFRegressor(10, basis=basis, random_state=0, **settings).fit(np.full((n_rows, 3), 4.2), y)
    np.testing.assert_allclose(model.predict(np.zeros((3, 3))), y.mean())


@refined_or_plain
@pytest.mark.parametrize("basis", BASES)
def test_two_rows_are_enough_to_fit(basis, settings):
    model = RFLAFRegressor(10, basis=basis, random_state=0, **settings).fit([[0.0], [1.0]], [1.0, 3.0])
    predicted = model.predict([[0.0], [1.0]])
    assert np.all((predicted > -20) & (predicted < 25))


@refined_or_plain
@pytest.mark.parametrize("n_rows", [20, LEAST_REFINED_ROWS + 50])
def test_one_row_with_all_the_weight_is_predicted_everywhere(n_rows, settings):
    X = np.random.default_rng(0).standard_normal((n_rows, 2))
    model = RFLAFRegressor(10, random_state=0, **settings)
    model.fit(X, np.arange(float(n_rows)), sample_weight=np.eye(n_rows)[7])
    np.testing.assert_allclose(model.predict(X), 7.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scale", "settings"),
    [*[(scale, PAPER) for scale in (1e-100, 1e-12, 1.0, 1e12, 1e100)], (1e-100, {}), (1e100, {})],
)
def test_any_scale_of_a_column_gives_the_same_fit(scale, settings):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((200, 2))
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.standard_normal(200)
    model = RFLAFRegressor(20, random_state=0, **settings)
    score = model.fit(X * [scale, 1.0], y).score(X * [scale, 1.0], y)
    assert score == pytest.approx(model.fit(X, y).score(X, y), abs=1e-4 if settings else 0.01)


@pytest.mark.parametrize(("dtype", "mean"), [(np.float32, 1e4), (np.float64, 1e9)])
@refined_or_plain
def test_a_column_far_from_zero_keeps_its_digits(dtype, mean, settings):
    rng = np.random.default_rng(2)
    X = rng.standard_normal((300, 2))
    y = np.tanh(2 * X[:, 0]) + 0.1 * rng.standard_normal(300)
    moved = (X + mean).astype(dtype)
    assert RFLAFRegressor(20, random_state=0, **settings).fit(moved, y).score(moved, y) > 0.9


@pytest.mark.slow
@pytest.mark.parametrize("basis", BASES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@refined_or_plain
def test_predictions_level_off_far_from_the_data(basis, dtype, settings):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((LEAST_REFINED_ROWS, 2)).astype(dtype)
    model = RFLAFRegressor(20, basis=basis, random_state=0, **settings).fit(X, X[:, 0] ** 2)
    direction = np.array([[1.0, -2.0]], dtype=dtype)
    assert_array_equal(model.predict(1e6 * direction), model.predict(1e9 * direction))


@pytest.mark.slow
@refined_or_plain
def test_duplicated_columns_and_more_components_than_rows_are_fitted(settings):
    rng = np.random.default_rng(4)
    X = np.repeat(rng.standard_normal((15, 2)), 4, axis=1)
    y = X[:, 0] + 0.1 * rng.standard_normal(15)
    model = RFLAFRegressor(200, random_state=0, **settings).fit(X, y)
    assert np.abs(model.predict(X) - y.mean()).max() <= 2 * np.ptp(y)
