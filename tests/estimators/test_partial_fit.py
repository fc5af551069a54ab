"""`partial_fit` of the regressor: chunks are the fit of all rows, rows fade as they age, sums stay with the model."""

from __future__ import annotations

import pickle
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from refusals import refusal
from settings import CONVEX, PAPER
from sklearn.linear_model import Ridge

from rflaf import BSplineBasis, InvalidParameterError, LeverageSampling, RFLAFClassifier, RFLAFRegressor
from rflaf.rows.blocks import ArraySource, array_source
from rflaf.rows.executors import ThreadExecutor
from rflaf.training.online import Chunk, start_updates

pytestmark = pytest.mark.usefixtures("small_pool")
quick = hypothesis_settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
RUNGS = {
    "shared": {**PAPER, "basis": BSplineBasis(6)},
    "leverage": {**PAPER, "basis": BSplineBasis(6), "sampling": LeverageSampling(30)},
    "per component": {**CONVEX, "basis": BSplineBasis(6)},
}
N_FIRST = 60


@pytest.fixture(scope="module")
def table():
    """Rows (240, 3), two targets far from zero (240, 2) and weights (240,)."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (240, 3))
    y = np.column_stack([50 + np.sin(X[:, 0]), 3 * X[:, 1] ** 2]) + 0.1 * rng.standard_normal((240, 2))
    return X, y, rng.uniform(0.2, 2, 240)


def shared_regressor(**settings) -> RFLAFRegressor:
    return RFLAFRegressor(8, **{**RUNGS["shared"], "alpha": 1e-4, "random_state": 0, **settings})


@pytest.fixture(scope="module")
def begun(table):
    """Models that have seen the first rows, by rung, whether weighted, and number of outputs."""
    X, y, weight = table
    return {
        (rung, weighted, n_outputs): shared_regressor(**settings).partial_fit(
            X[:N_FIRST], targets(y, n_outputs)[:N_FIRST], weight[:N_FIRST] if weighted else None
        )
        for rung, settings in RUNGS.items()
        for weighted in (False, True)
        for n_outputs in (1, 2)
    }


def targets(y, n_outputs):
    return y[:, 0] if n_outputs == 1 else y


def carried_on(model, table, cuts, weighted=False, n_outputs=1, half_life=None):
    """A copy of a model after the rows beyond the first ones, chunk by chunk."""
    X, y, weight = table
    model = pickle.loads(pickle.dumps(model))
    for part in np.split(np.arange(N_FIRST, len(X)), cuts):
        w = weight[part] if weighted else None
        model.partial_fit(X[part], targets(y, n_outputs)[part], w, half_life=half_life)
    return model


def ridge_on(model, X, y, weight):
    """The fit of all rows by scikit-learn on the features of a model."""
    total = weight.sum()
    reference = Ridge(model.model_.last_layer.ridge * total, solver="cholesky")
    return reference.fit(model.transform(X), y, sample_weight=weight)


cuts_of_the_rest = st.sets(st.integers(1, 179), max_size=6).map(sorted)


@pytest.mark.slow
@quick
@given(cuts_of_the_rest, st.sampled_from(list(RUNGS)), st.booleans(), st.sampled_from([1, 2]))
def test_any_chunks_are_the_fit_of_all_rows(table, begun, cuts, rung, weighted, n_outputs):
    X, y, weight = table
    model = carried_on(begun[rung, weighted, n_outputs], table, cuts, weighted, n_outputs)
    expected = ridge_on(model, X, targets(y, n_outputs), weight if weighted else np.ones(240))
    assert_allclose(model.predict(X), expected.predict(model.transform(X)), rtol=1e-8)
    assert_allclose(model.output_weights_, expected.coef_, rtol=0, atol=1e-8 * np.abs(expected.coef_).max())


@pytest.mark.parametrize("rung", list(RUNGS))
def test_fit_and_more_rows_are_the_fit_of_all_rows(table, begun, rung):
    X, y, _ = table
    fitted = shared_regressor(**RUNGS[rung]).fit(X[:N_FIRST], y[:N_FIRST, 0])
    model = carried_on(fitted, table, [30])
    assert_allclose(model.predict(X), carried_on(begun[rung, False, 1], table, [110]).predict(X), rtol=1e-10)


@pytest.mark.slow
def test_a_refined_model_and_more_rows_are_the_ridge_on_what_it_said_and_what_they_say():
    """Of the rows it was trained on the targets are those that its output weights v answer: the model itself."""
    rng = np.random.default_rng(1)
    X = rng.uniform(-2, 2, (400, 2))
    y = np.abs(X[:, 0]) + X[:, 1] ** 2
    model = RFLAFRegressor(5, alpha=1e-4, curves=True, random_state=0).fit(X[:240], y[:240])
    assert model.curves_ is not None
    said, v, ridge = model.predict(X[:240]), model.output_weights_, model.model_.last_layer.ridge
    model.partial_fit(X[240:300], y[240:300]).partial_fit(X[300:], y[300:])
    target, Z = np.concatenate([said, y[240:]]), model.transform(X)
    Z = Z - Z.mean(axis=0)
    learned = np.linalg.solve(Z.T @ Z + 400 * ridge * np.eye(5), Z.T @ target + 240 * ridge * v)
    assert_allclose(model.predict(X), target.mean() + Z @ learned, rtol=1e-6, atol=1e-6)


def test_the_first_chunk_alone_is_a_fit(table, begun):
    X, y, _ = table
    fitted = shared_regressor().fit(X[:N_FIRST], y[:N_FIRST, 0])
    assert_array_equal(fitted.predict(X), begun["shared", False, 1].predict(X))


def test_later_chunks_change_the_output_weights_only(table, begun):
    before = begun["shared", False, 1]
    after = carried_on(before, table, [50])
    assert_array_equal(after.directions_, before.directions_)
    assert_array_equal(after.activation_.coefficients, before.activation_.coefficients)
    assert not np.allclose(after.output_weights_, before.output_weights_, rtol=1e-3)
    assert after.alpha_ == before.alpha_


@pytest.mark.slow
@quick
@given(
    cuts_of_the_rest,
    st.sampled_from([3.0, 25.0, 1000.0]),
    st.booleans(),
    st.sampled_from(["shared", "per component"]),
)
def test_rows_fade_the_same_in_any_chunks(table, begun, cuts, half_life, weighted, rung):
    X, y, weight = table
    parameters = shared_regressor(**RUNGS[rung])
    w = weight if weighted else np.ones(240)
    model = parameters.partial_fit(X[:N_FIRST], y[:N_FIRST, 0], w[:N_FIRST], half_life=half_life)
    model = carried_on(model, (X, y, w), cuts, weighted=True, half_life=half_life)
    expected = ridge_on(model, X, y[:, 0], w * 2.0 ** (-np.arange(240)[::-1] / half_life))
    assert_allclose(model.predict(X), expected.predict(model.transform(X)), rtol=1e-8)
    layer, other = model.model_.last_layer, carried_on(begun["shared", False, 1], table, [])
    assert layer.equations.weight == pytest.approx((w * 2.0 ** (-np.arange(240)[::-1] / half_life)).sum())
    assert other.model_.last_layer.equations.weight == 240


@pytest.mark.parametrize("half_life", [None, 40.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_how_sure_a_prediction_is_does_not_depend_on_the_chunks(table, half_life, weighted):
    X, y, weight = table
    w = weight if weighted else None
    of_first = None if w is None else w[:N_FIRST]
    first = shared_regressor().partial_fit(X[:N_FIRST], y[:N_FIRST], of_first, half_life=half_life)
    answers = [
        carried_on(first, table, cuts, weighted, 2, half_life).predict(X, return_std=True) for cuts in ([], [7, 100])
    ]
    assert_allclose(answers[1][1], answers[0][1], rtol=1e-7)
    assert (answers[0][1] > 0).all()


def test_after_more_rows_the_deviation_is_that_of_a_fit_of_all(table):
    X, y, _ = table
    first = shared_regressor().partial_fit(X[:N_FIRST], y[:N_FIRST, 0])
    after = carried_on(first, table, [90])
    layer = after.model_.last_layer
    residual = y[:, 0] - after.predict(X)
    spent = layer.solve().factor.degrees_of_freedom + 1
    assert layer.noise[0] == pytest.approx(np.mean(residual**2) / (1 - spent / 240) ** 2, rel=1e-6)
    assert layer.equations.n_rows == 240


def test_what_rows_held_out_said_of_the_noise_is_theirs_alone(table, begun):
    model = pickle.loads(pickle.dumps(begun["shared", False, 1]))
    layer = model.model_.last_layer
    model.model_ = replace(model.model_, last_layer=replace(layer, noise=layer.noise + 1.0))
    plain, raised = (carried_on(one, table, [90]).model_.last_layer for one in (begun["shared", False, 1], model))
    assert raised.noise[0] - plain.noise[0] == pytest.approx(N_FIRST / 240, rel=1e-6)


def test_a_model_is_pruned_after_more_rows(table, begun):
    X, y, _ = table
    pruned = carried_on(begun["shared", False, 1], table, [90]).prune(3)
    expected = ridge_on(pruned, X, y[:, 0], np.ones(240))
    assert_allclose(pruned.predict(X), expected.predict(pruned.transform(X)), rtol=1e-8)
    more = pickle.loads(pickle.dumps(pruned)).partial_fit(X[:50], y[:50, 0])
    both = ridge_on(pruned, np.vstack([X, X[:50]]), np.concatenate([y[:, 0], y[:50, 0]]), np.ones(290))
    assert_allclose(more.predict(X), both.predict(pruned.transform(X)), rtol=1e-8)


def test_targets_far_from_zero_keep_their_digits_in_single_precision(table):
    X, y, _ = table
    far = 1e5 + y[:, 0]
    single = shared_regressor().fit(X[:N_FIRST].astype(np.float32), far[:N_FIRST])
    single.partial_fit(X[N_FIRST:].astype(np.float32), far[N_FIRST:])
    double = shared_regressor().fit(X[:N_FIRST], far[:N_FIRST]).partial_fit(X[N_FIRST:], far[N_FIRST:])
    assert np.abs(single.predict(X) - double.predict(X)).max() < 1e-3


def fade_in(table, X, y, weight, loss="squared"):
    """A model of the first rows of a table that has then seen others, however these are given."""
    rows, outputs, w = table
    model = shared_regressor(loss=loss).partial_fit(rows[:N_FIRST], outputs[:N_FIRST, 0], w[:N_FIRST], half_life=30)
    return model.partial_fit(X, y, weight, half_life=30)


@pytest.mark.slow
@pytest.mark.parametrize(("loss", "row_group"), [("squared", 7), ("poisson", 180)])
def test_rows_of_files_fade_in_their_order(table, loss, row_group, tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    X, y, weight = (part[N_FIRST:] for part in table)
    expected = fade_in(table, X, y[:, 0], weight, loss)
    columns = pa.table({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "y": y[:, 0], "w": weight})
    for number, part in enumerate((slice(0, 70), slice(70, 180))):
        rows = columns.slice(part.start, part.stop - part.start)
        pq.write_table(rows, tmp_path / f"{number}.parquet", row_group_size=row_group)
    model = fade_in(table, tmp_path, "y", "w", loss)
    assert_allclose(model.predict(X), expected.predict(X), rtol=1e-9)
    if loss == "squared":
        layer, other = model.model_.last_layer, expected.model_.last_layer
        assert layer.equations.n_rows == pytest.approx(other.equations.n_rows)
        assert layer.equations.whole_weights is other.equations.whole_weights is False


@quick
@given(st.integers(1, 240), st.sampled_from([3.0, 25.0, 1000.0]))
def test_rows_fade_the_same_in_any_blocks(block_rows, half_life):
    X, y = np.random.default_rng(0).standard_normal((240, 2)), np.zeros((240, 1))
    source = ArraySource(X, y, np.arange(240.0), block_rows)
    rows = Chunk(source, half_life).rows
    weights = np.concatenate([rows[i].weight for i in range(len(rows))])
    assert_allclose(weights, np.arange(240) * 2.0 ** (-np.arange(240)[::-1] / half_life), rtol=1e-12)


def test_drifting_data_are_followed(table):
    rng = np.random.default_rng(3)
    X = rng.uniform(-2, 2, (900, 2))
    drift = np.repeat([1.0, -1.0], 450)
    y = drift * np.sin(X[:, 0])
    errors = []
    for half_life in (None, 60):
        model = shared_regressor()
        for part in np.split(np.arange(900), 6):
            model.partial_fit(X[part], y[part], half_life=half_life)
        errors.append(np.mean((model.predict(X[:450]) + np.sin(X[:450, 0])) ** 2))
    assert errors[1] < 0.01 * errors[0]


# Other losses

COUNTS = {"poisson": lambda y: np.round(np.abs(y)), "huber": lambda y: y, "quantile": lambda y: y}


@pytest.mark.parametrize("half_life", [None, 200.0])
@pytest.mark.parametrize("loss", list(COUNTS))
def test_other_losses_end_near_the_fit_of_all_rows(loss, half_life):
    rng = np.random.default_rng(5)
    X = rng.uniform(-2, 2, (1500, 2))
    y = COUNTS[loss](10 * np.sin(X[:, 0]) + 3 * rng.standard_normal(1500))
    model = RFLAFRegressor(8, loss=loss, alpha=1e-3, random_state=0, **RUNGS["shared"])
    for part in np.split(np.arange(1500), [600, 900, 1200]):
        model.partial_fit(X[part], y[part], half_life=half_life)
    chunk = Chunk(array_source(X, y), half_life or 1e12)
    whole, _ = start_updates(model.model_, model._terms, chunk, ThreadExecutor(1))

    def mean_loss(one):
        return np.average(model.loss_.value(one.decision(X), y[:, None]), weights=chunk.rows[0].weight)

    assert mean_loss(model.model_) == pytest.approx(mean_loss(whole), rel=0.015)
    assert model.model_.last_layer is None


def test_a_chunk_without_any_count_is_learned():
    rng = np.random.default_rng(6)
    X = rng.uniform(-2, 2, (300, 2))
    y = np.round(np.exp(X[:, 0]))
    model = shared_regressor(loss="poisson").partial_fit(X, y)
    before = model.predict(X).mean()
    assert model.partial_fit(X, np.zeros(300)).predict(X).mean() < 0.8 * before


def test_labels_fade_too():
    rng = np.random.default_rng(7)
    X = rng.uniform(-2, 2, (900, 2))
    y = (X[:, 0] > 0) ^ (np.arange(900) >= 750) ^ (rng.uniform(size=900) < 0.2)
    settings = {**RUNGS["shared"], "alpha": 1e-3, "random_state": 0}
    errors = []
    for half_life in (None, 60):
        model = RFLAFClassifier(8, **settings)
        for part in np.split(np.arange(900), 6):
            model.partial_fit(X[part], y[part], classes=[False, True], half_life=half_life)
        errors.append(np.mean(model.predict(X) != (X[:, 0] <= 0)))
    assert errors[1] < 0.15 < 0.5 < errors[0]


# Life of the estimator


def test_fit_forgets_what_was_learned_before(table, begun):
    X, y, _ = table
    model = carried_on(begun["shared", False, 1], table, [90])
    assert_array_equal(
        model.fit(X[:N_FIRST], y[:N_FIRST, 0]).output_weights_, begun["shared", False, 1].output_weights_
    )


def test_a_stored_model_goes_on_learning_bit_for_bit(table, begun):
    kept = carried_on(begun["per component", True, 2], table, [20, 60], True, 2)
    X, y, weight = table
    model = pickle.loads(pickle.dumps(begun["per component", True, 2]))
    for part in np.split(np.arange(N_FIRST, 240), [20, 60]):
        model = pickle.loads(pickle.dumps(model.partial_fit(X[part], y[part], weight[part])))
    assert_array_equal(model.predict(X), kept.predict(X))


def test_a_single_row_is_learned(table, begun):
    X, _, _ = table
    model = pickle.loads(pickle.dumps(begun["shared", False, 1])).partial_fit(X[:1], [80.0])
    assert model.predict(X[:1])[0] > begun["shared", False, 1].predict(X[:1])[0]


def chunk_refusal(model, table, X=None, y=None, sample_weight=None):
    """The message of a chunk that is refused."""
    rows, targets = table[0][:20] if X is None else X, table[1][:20, 0] if y is None else y
    return str(refusal(ValueError, [model], lambda begun: begun.partial_fit(rows, targets, sample_weight)))


def test_chunks_that_do_not_fit_are_refused(table, begun):
    model = begun["shared", False, 1]
    assert "features" in chunk_refusal(model, table, X=table[0][:20, :2])
    assert "as many outputs" in chunk_refusal(model, table, y=table[1][:20])
    assert "NaN" in chunk_refusal(model, table, y=np.full(20, np.nan))
    assert "positive entry" in chunk_refusal(model, table, sample_weight=np.zeros(20))
    assert "as many outputs" in chunk_refusal(begun["shared", False, 2], table, y=table[1][:20, 0])


def test_negative_counts_in_a_later_chunk_are_refused():
    rng = np.random.default_rng(6)
    X = rng.uniform(-2, 2, (100, 2))
    model = shared_regressor(loss="poisson").partial_fit(X, np.round(np.exp(X[:, 0])))
    with pytest.raises(InvalidParameterError, match="counts must not be negative"):
        model.partial_fit(X, X[:, 0])


def test_chunks_of_data_frames_must_have_the_same_columns(table):
    X, y, _ = table
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = shared_regressor().partial_fit(frame, y[:, 0])
    with pytest.raises(ValueError, match="feature names"):
        model.partial_fit(frame[["b", "a", "c"]], y[:, 0])


@pytest.mark.parametrize("half_life", [0, -1.0, "long", np.nan, True])
def test_a_half_life_that_is_none_is_refused(table, half_life):
    with pytest.raises(InvalidParameterError, match="half_life must be None or a number of rows above zero"):
        shared_regressor().partial_fit(table[0], table[1], half_life=half_life)


@pytest.mark.slow
def test_a_column_of_no_use_at_first_is_named_once_it_tells_the_errors():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1200, 3))
    y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(1200)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = RFLAFRegressor(16, random_state=0, n_jobs=1).partial_fit(frame[:600], y[:600])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.partial_fit(frame[600:], y[600:])  # nothing new
    with pytest.warns(UserWarning, match=r"of no use in the first rows.*'b'\. partial_fit learns output weights only"):
        model.partial_fit(frame[600:], y[600:] + 2 * X[600:, 1])
    labels = RFLAFClassifier(16, random_state=0, n_jobs=1).partial_fit(X[:600], X[:600, 0] > 0, classes=[False, True])
    with pytest.warns(UserWarning, match=r"number 2"):
        labels.partial_fit(X[600:], X[600:, 2] > 0)
