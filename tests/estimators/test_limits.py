"""Monotone columns and limited interactions: kept everywhere, refused with the reason where they cannot be."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import lsq_linear
from sklearn.isotonic import isotonic_regression

import rflaf
from rflaf import InvalidParameterError, RBFBasis, RFLAFClassifier, RFLAFRegressor
from rflaf.functions._kernels.bounds import FREE, NO_BOUNDS, rise
from rflaf.functions._kernels.loops import alone
from rflaf.functions.losses import Squared
from rflaf.training.signed_lines import _Lines
from rflaf.training.solvers.refined.limits import ColumnSet, Limits, bounded_start

RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, (400, 5))
Y = np.tanh(2 * X[:, 0]) - np.exp(X[:, 1] / 2) + np.sin(2 * X[:, 2]) + 0.5 * X[:, 3] * X[:, 4]
Y = Y + 0.3 * RNG.standard_normal(400)
QUICK = {"n_components": 24, "alpha": 1e-3, "random_state": 0, "n_jobs": 1}
MONOTONE = {0: 1, 1: -1}


@pytest.fixture(scope="module")
def rising():
    return {
        "curved": RFLAFRegressor(**QUICK, curves=True, monotone=MONOTONE).fit(X, Y),
        "straight": RFLAFRegressor(**QUICK, curves=False, monotone=MONOTONE).fit(X, Y),
        "quantile": RFLAFRegressor(**QUICK, loss="quantile", quantile=0.9, monotone=MONOTONE).fit(X, Y),
        "fan": RFLAFRegressor(**QUICK, loss="quantile", quantile=[0.1, 0.5, 0.9], monotone=MONOTONE).fit(X, Y),
        "classes": RFLAFClassifier(**QUICK, monotone=MONOTONE).fit(X, Y > 0),
        "noise": RFLAFRegressor(**QUICK, monotone=MONOTONE).fit(X, RNG.permutation(Y)),  # it would like to wind
    }


KINDS = ["curved", "straight", "quantile", "fan", "classes", "noise"]


def lowest_slope(model, column, sign, output=0):
    """Interval arithmetic: a lower bound of sign times the slope of f in a column, over all rows there are.

    The slope is sum_m q_m v_m sigma_m'(u) h_m'(x); each factor has a range over its pieces, exactly.
    """
    pieces, a = model.activation.compile()
    table = pieces.table(a)  # cubics (n_tables, n_cells, 4) in t of [-1/2, 1/2]
    ends = [table[..., 1] + 2 * table[..., 2] * t + 3 * table[..., 3] * t**2 for t in (-0.5, 0.5)]
    with np.errstate(divide="ignore", invalid="ignore"):
        inner = np.clip(-table[..., 2] / (3 * table[..., 3]), -0.5, 0.5)
    inner = np.where(np.isfinite(inner), inner, 0.5)
    ends.append(table[..., 1] + 2 * table[..., 2] * inner + 3 * table[..., 3] * inner**2)
    outer = np.minimum(np.min(ends, axis=(0, 2)), 0), np.maximum(np.max(ends, axis=(0, 2)), 0)  # flat beyond the cells
    weight = model.directions.importance * model.v[:, output] / pieces.step
    line = model.directions.W[column]
    reads = [line]
    if model.curves is not None and column in model.curves.knots.columns:
        curve = int(np.flatnonzero(model.curves.knots.columns == column)[0])
        first, last = model.curves.knots.start[curve : curve + 2]
        gaps = np.diff(model.curves.knots.of(curve))[:, None]
        reads += list(line + np.diff(model.curves.values[first:last], axis=0) / gaps)
    return min(
        float(np.sum(np.minimum(sign * weight * read * outer[0], sign * weight * read * outer[1]))) for read in reads
    )


@pytest.mark.parametrize("kind", KINDS)
def test_interval_arithmetic_on_the_pieces_proves_the_direction(rising, kind):
    model = rising[kind].model_
    size = float(np.abs(model.v).sum())
    for column, sign in MONOTONE.items():
        assert min(lowest_slope(model, column, sign, at) for at in range(model.n_outputs)) >= -1e-9 * size


@pytest.mark.parametrize("kind", KINDS)
def test_no_row_moves_against_the_direction(rising, kind):
    rng = np.random.default_rng(1)
    rows = rng.uniform(-3, 3, (20_000, 5))
    for column, sign in MONOTONE.items():
        moved = rows.copy()
        moved[:, column] += rng.exponential(0.5, len(rows))
        change = sign * (rising[kind](moved) - rising[kind](rows))
        assert change.min() >= -1e-12
        line = np.repeat(rows[:20], 500, axis=0)
        line[:, column] = np.tile(np.linspace(-3, 3, 500), 20)
        along = np.diff(rising[kind](line).reshape(20, 500, -1), axis=1)
        assert (sign * along).min() >= -1e-12


def test_a_free_model_does_move_against_it(rising):
    free = RFLAFRegressor(**QUICK, curves=True).fit(X, Y)
    assert lowest_slope(free.model_, 0, 1) < -0.1
    test = RNG.uniform(-2, 2, (2000, 5))
    truth = np.tanh(2 * test[:, 0]) - np.exp(test[:, 1] / 2) + np.sin(2 * test[:, 2]) + 0.5 * test[:, 3] * test[:, 4]
    error, bound = (np.mean((model.predict(test) - truth) ** 2) for model in (free, rising["curved"]))
    assert bound < 1.02 * error


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"age": rng.uniform(20, 80, 300), "town": rng.choice(["a", "b", "c"], 300)})
    frame["size"] = rng.standard_normal(300)
    y = frame["age"] / 20 + (frame["town"] == "b") * frame["size"] + 0.1 * rng.standard_normal(300)
    frame.loc[::7, "age"] = np.nan
    return frame, y.to_numpy()


@pytest.mark.slow
def test_columns_of_a_table_rise_and_act_alone(table):
    frame, y = table
    model = RFLAFRegressor(**QUICK, monotone={"age": 1}, interactions="none").fit(frame, y)
    assert not model.interaction_strengths(frame[:50]).any()
    older = frame.assign(age=frame["age"] + 5)
    change = model.predict(older) - model.predict(frame)
    assert change[frame["age"].notna()].min() >= 0


@pytest.mark.slow
def test_only_the_pairs_named_interact(table, tmp_path):
    frame, y = table
    model = RFLAFRegressor(**QUICK, interactions=[("town", "size")]).fit(frame, y)
    strength = model.interaction_strengths(frame[:50])
    assert strength[1, 2] > 0.05
    assert np.count_nonzero(strength) == 2
    rflaf.save(model, tmp_path / "m.rflaf")
    assert rflaf.load(tmp_path / "m.rflaf").interactions == [("town", "size")]


def test_limits_are_in_the_file(rising, tmp_path):
    rflaf.save(rising["curved"], tmp_path / "m.rflaf")
    loaded = rflaf.load(tmp_path / "m.rflaf")
    assert loaded.monotone == MONOTONE
    assert_array_equal(loaded.predict(X), rising["curved"].predict(X))


def test_limits_that_say_nothing_change_nothing():
    models = [RFLAFRegressor(**QUICK, curves=False, monotone=given).fit(X, Y) for given in (None, {}, {0: 0})]
    for model in models[1:]:
        assert_array_equal(model.predict(X), models[0].predict(X))


@pytest.mark.parametrize("name", ["monotone", "interactions"])
@pytest.mark.parametrize("other", [{"directions": "random"}, {"activation": "shared"}, {"basis": RBFBasis(16)}])
def test_a_model_that_cannot_keep_a_limit_is_refused(name, other):
    given = {0: 1} if name == "monotone" else "none"
    with pytest.raises(
        InvalidParameterError, match=f"{name} is kept by refined directions with one B-spline activation"
    ):
        RFLAFRegressor(5, **{name: given}, **other).fit(X, Y)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"monotone": {"age": 2}}, "monotone must be None or a dict from columns to 1, -1 or 0"),
        ({"monotone": {"wealth": 1}}, "monotone must name columns of X; got 'wealth'. Choose of"),
        ({"monotone": {"town": 1}}, "a monotone column must hold numbers; 'town' does not; got 'a category'"),
        ({"interactions": "all"}, "interactions must be None, 'none' or a list of pairs"),
        ({"interactions": [("age", "wealth")]}, "interactions must name columns of X; got 'wealth'"),
        ({"interactions": [("age", "age")]}, "interactions must pair different columns; got ('age', 'age')"),
        ({"interactions": "none", "n_components": 2}, "n_components must be at least 3, one per column and pair"),
    ],
)
def test_limits_on_columns_that_are_not_there_are_refused(table, given, words):
    frame, y = table
    model = RFLAFRegressor(**{**QUICK, **given})
    with pytest.raises(InvalidParameterError) as caught:
        model.fit(frame, y)
    assert str(caught.value).startswith(words)
    assert not hasattr(model, "model_")


def test_what_would_not_keep_a_direction_is_refused(rising):
    with pytest.raises(InvalidParameterError, match="prune solves for the output weights again"):
        rising["curved"].prune(5)
    with pytest.raises(InvalidParameterError, match="partial_fit solves for the output weights again"):
        RFLAFRegressor(**QUICK, monotone=MONOTONE).partial_fit(X, Y)
    with pytest.raises(InvalidParameterError, match="monotone needs one output"):
        RFLAFRegressor(**QUICK, monotone=MONOTONE).fit(X, np.c_[Y, Y])
    with pytest.raises(InvalidParameterError, match="need at least 20 rows of more than 1000 columns; got 10"):
        RFLAFRegressor(1200, interactions="none").fit(np.ones((10, 1100)), Y[:10])


# Few rows: the constant, or lines whose weights keep the signs


def lines_of(loss, ridge, signs, n=60):
    Z, y = X[:n, :3], Y[:n, None]
    return _Lines(Z, y, np.ones(n), loss, np.array(signs), True).fitted(ridge, (np.zeros((3, 1)), np.zeros(1)))


@pytest.mark.parametrize("signs", [(0, 0, 0), (1, -1, 0), (-1, 1, 1)])
def test_signed_lines_are_bounded_least_squares(signs):
    v, b = lines_of(Squared(), 0.1, signs)
    rows = np.r_[np.c_[X[:60, :3], np.ones(60)] / np.sqrt(60), np.sqrt(0.1) * np.eye(4)[:3]]
    low, high = (np.r_[[side if sign == side else far for sign in signs], far] for side, far in ((1, -9.0), (-1, 9.0)))
    low, high = np.where(low == 1, 0, low), np.where(high == -1, 0, high)
    reference = lsq_linear(rows, np.r_[Y[:60] / np.sqrt(60), np.zeros(3)], (low, high), tol=1e-14).x
    assert_allclose(np.r_[v[:, 0], b], reference, atol=1e-5)
    assert (np.array(signs) * v[:, 0] >= 0).all()


def test_quantiles_of_a_target_rise_together_and_stay_in_order(rising):
    rows = np.random.default_rng(3).uniform(-30, 30, (20_000, 5))
    quantiles = rising["fan"].predict(rows)
    assert (np.diff(quantiles, axis=1) >= 0).all()
    assert (rising["fan"].predict(rows + np.eye(5)[0]) >= quantiles - 1e-12).all()
    residual = Y[:, None] - rising["fan"].predict(X)
    assert_allclose(np.mean(residual <= 0, axis=0), [0.1, 0.5, 0.9], atol=0.07)


@pytest.mark.parametrize("n_rows", [8, 19])
def test_quantiles_of_very_few_rows_keep_the_directions(n_rows):
    fan = {"loss": "quantile", "quantile": [0.25, 0.75], "monotone": {0: -1, 1: -1}}
    model = RFLAFRegressor(random_state=0, **fan).fit(X[:n_rows], Y[:n_rows])
    change = model.predict(np.eye(5)) - model.predict(np.zeros((1, 5)))
    assert_array_equal(change[0], 0)  # the rows rise in it
    assert (change[1] <= 0).all()


@pytest.mark.parametrize("loss", ["squared", "quantile", "huber"])
@pytest.mark.parametrize("n_rows", [8, 19])
def test_very_few_rows_keep_the_directions_under_every_loss(loss, n_rows):
    model = RFLAFRegressor(random_state=0, loss=loss, monotone={0: -1, 1: -1}).fit(X[:n_rows], Y[:n_rows])
    weights = model.predict(np.eye(5)) - model.predict(np.zeros((1, 5)))
    assert weights[0] == 0  # the rows rise in it
    assert weights[1] <= 0
    assert model.interaction_strengths(X[:20]).max() < 1e-12


def test_very_few_rows_of_a_table_keep_the_direction_of_a_number_beside_levels(table):
    frame, y = table
    frame, y = frame[["town", "size", "age"]].dropna()[:18], y[frame["age"].notna()][:18]
    for sign in (1, -1):
        model = RFLAFRegressor(random_state=0, monotone={"age": sign}).fit(frame, y)
        change = model.predict(frame.assign(age=frame["age"] + 20)) - model.predict(frame)
        assert (change > 0.1).all() if sign == 1 else (change == 0).all()


def test_the_ridge_of_signed_lines_has_the_lowest_error_of_rows_left_out():
    rows = X[:17, :3]
    y = rows @ [1.0, -0.3, 0.4] + 1.2 * np.random.default_rng(2).standard_normal(17)
    Z, t = (rows - rows.mean(axis=0)) / rows.std(axis=0), (y - y.mean()) / y.std()

    def lines(ridge, kept):
        A = np.r_[np.c_[Z[kept], np.ones(len(kept))] / np.sqrt(len(kept)), np.sqrt(ridge) * np.eye(4)[:3]]
        low = [0.0, -np.inf, -np.inf, -np.inf]
        return lsq_linear(A, np.r_[t[kept] / np.sqrt(len(kept)), np.zeros(3)], (low, np.inf), tol=1e-14).x

    def error(ridge):
        left_out = [lines(ridge, np.delete(np.arange(17), i)) for i in range(17)]
        return np.mean([(Z[i] @ x[:3] + x[3] - t[i]) ** 2 for i, x in enumerate(left_out)])

    ridges = 10.0 ** np.arange(1, -8, -1)
    best = ridges[np.argmin([error(ridge) for ridge in ridges])]
    model = RFLAFRegressor(monotone={0: 1}, random_state=0).fit(rows, y)
    x = lines(best, np.arange(17))
    assert best == 1
    assert_allclose(model.predict(rows), y.mean() + y.std() * (Z @ x[:3] + x[3]), atol=1e-5)


@pytest.mark.parametrize("loss", ["squared", "poisson"])
def test_one_row_that_weighs_something_is_answered_by_its_target(loss):
    X = np.random.default_rng(0).standard_normal((6, 2))
    model = RFLAFRegressor(5, monotone={0: 1}, loss=loss, random_state=0)
    assert np.allclose(model.fit(X, np.arange(2.0, 8.0), [0, 0, 1, 0, 0, 0]).predict(X), 4.0)


def test_very_few_rows_keep_columns_apart():
    for loss in ("squared", "quantile"):
        model = RFLAFRegressor(6, loss=loss, interactions="none", random_state=0).fit(X[:15], Y[:15])
        assert model.interaction_strengths(X[:20]).max() < 1e-12


@pytest.mark.slow
def test_a_linear_truth_of_few_rows_costs_a_monotone_model_no_more_than_a_free_one():
    errors = []  # of six draws: on one alone either may take the mean with a refined model
    for seed in range(4, 10):
        rng = np.random.default_rng(seed)
        rows = rng.standard_normal((60, 3))
        y = rows @ [1.0, -1.0, 0.0] + 0.5 * rng.standard_normal(60)
        test = rng.standard_normal((1000, 3))
        models = [
            RFLAFRegressor(24, monotone=given, random_state=0, n_jobs=1).fit(rows, y) for given in (None, {0: 1, 1: -1})
        ]
        errors.append([np.mean((model.predict(test) - test @ [1.0, -1.0, 0.0]) ** 2) for model in models])
        assert lowest_slope(models[1].model_, 0, 1) >= -1e-12  # to rounding
        assert lowest_slope(models[1].model_, 1, -1) >= -1e-12
    error, of_bound = np.mean(errors, axis=0)
    assert of_bound < 1.2 * error


def test_rows_that_fall_where_the_model_must_rise_are_answered_by_a_constant():
    rng = np.random.default_rng(5)
    rows = rng.standard_normal((40, 1))
    model = RFLAFRegressor(12, monotone={0: 1}, random_state=0, n_jobs=1).fit(rows, -rows[:, 0])
    assert np.ptp(model.predict(rows)) < 1e-12
    labels = RFLAFClassifier(12, monotone={0: 1}, random_state=0, n_jobs=1).fit(rows, rows[:, 0] < 0)
    assert np.ptp(labels.predict_proba(rows)[:, 1]) < 1e-12


# Bounds and their projection


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(-100, 100, width=32), min_size=1, max_size=16))
def test_the_projection_of_coefficients_is_isotonic_regression(values):
    c = np.array([values], np.float32)
    alone(rise)(c, 0, np.empty(len(values), np.float32), np.empty(len(values), np.float32))
    assert (np.diff(c[0]) >= 0).all()
    assert_allclose(c[0], isotonic_regression(np.array(values)), rtol=1e-4, atol=1e-4)


def test_components_rise_read_columns_in_their_direction_or_not_at_all():
    bounds = Limits(((0, 1), (2, -1))).bounds(np.array([2, 1, 0]), 8, 16)
    assert_array_equal(bounds.sign[1], FREE)
    assert_array_equal(bounds.sign[0, :8], -1 * bounds.rises[:8])
    assert_array_equal(bounds.sign[2, :8], 1 * bounds.rises[:8])
    assert bounds.rises[:8].sum() == 6
    assert not bounds.rises[8:].any()
    assert Limits().bounds(np.arange(3), 8, 8) is NO_BOUNDS
    W = bounded_start(np.random.default_rng(0).standard_normal((3, 8)), bounds)
    assert (W[0] <= 0).all()
    assert (W[2] >= 0).all()
    assert (W[0, bounds.rises[:8]] < 0).all()


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 6), st.integers(0, 20), st.booleans())
def test_each_component_reads_one_set_and_each_set_is_read(n_columns, more, paired):
    sets = [ColumnSet((c,)) for c in range(n_columns)]
    if paired and n_columns > 1:
        sets.append(ColumnSet((0, n_columns - 1), 2))
    width = len(sets) + more
    read = Limits((), tuple(sets)).bounds(np.arange(n_columns), width, width).sign.T == FREE
    found = {tuple(np.flatnonzero(row)) for row in read}
    assert found == {one.columns for one in sets}
