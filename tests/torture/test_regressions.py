"""What hostile data once broke."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

import rflaf
from rflaf import RFLAFClassifier, RFLAFRegressor

rng = np.random.default_rng(0)


@pytest.mark.filterwarnings("ignore::rflaf.errors.AssumptionWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_labels_that_are_told_apart_without_a_ridge_leak_no_warning():
    X = rng.standard_normal((30, 12))
    model = RFLAFClassifier.paper(3, pool_size=8, alpha=0.0, scale=False, bandwidth=1.0, random_state=0)
    weight = np.maximum(rng.standard_normal(30), 0)
    assert np.isfinite(model.fit(X, X[:, 0] > 0, weight).predict_proba(X)).all()


def test_importance_of_columns_under_a_flat_activation_is_a_share():
    X = rng.standard_normal((3, 2))
    model = RFLAFRegressor.convex(3, loss="huber", bandwidth=1e100, basis="polynomial", alpha=1e-300, random_state=0)
    importance = model.fit(X, X[:, 0]).column_importance_
    assert np.isfinite(importance).all()
    assert importance.sum() == pytest.approx(1) or importance.sum() == 0


def test_a_constant_column_of_large_numbers_leaks_no_warning():
    X = np.c_[rng.standard_normal((30, 2)), np.full(30, 1e300)]
    model = RFLAFClassifier.convex(3, loss="squared_hinge", random_state=0).fit(X, X[:, 0] > 0)
    assert np.isfinite(model.decision_function(X)).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    "number", [294, 915, 165, 1549, 1852, 770, 1522, 1536, 1225, 20779, 20817, 22380, 22420, 24382]
)  # each leaked a RuntimeWarning from another place, or divided by zero
def test_cases_that_leaked_warnings(number):
    from run import run_case

    assert run_case(number).startswith(("fitted", "refused"))


def test_rows_in_single_precision_have_large_answers():
    X = np.random.default_rng(0).standard_normal((200, 2)).astype(np.float32)
    y = 1e100 * X[:, 0].astype(float)
    model = rflaf.RFLAFRegressor(10, directions="random", random_state=0).fit(X, y)
    assert np.allclose(model.predict(X), y, rtol=0, atol=1e98)
    assert np.allclose(model.predict(X[:1]), y[:1], rtol=0, atol=1e98)


def test_the_sums_of_targets_too_large_to_square_are_not_kept():
    X = np.random.default_rng(0).standard_normal((100, 2))
    model = rflaf.RFLAFRegressor.convex(5, random_state=0).fit(X, np.full(100, 3e300))
    assert np.array_equal(model.predict(X), np.full(100, 3e300))
    with pytest.raises(rflaf.InvalidParameterError, match="needs the sums"):
        model.prune(2)
    assert np.isfinite(model.predict(X, return_std=True)[1]).all()


def test_reasons_of_huge_answers_are_those_of_small_ones():
    X = np.random.default_rng(0).standard_normal((60, 10))
    small = rflaf.RFLAFRegressor(8, directions="random", random_state=0).fit(X, X[:, 0] * X[:, 1])
    huge = rflaf.RFLAFRegressor(8, directions="random", random_state=0).fit(X, 2.0**200 * X[:, 0] * X[:, 1])
    for reasons in ("values", "standard_error"):
        found, expected = (getattr(model.explain(X[:5]), reasons) for model in (huge, small))
        assert np.isfinite(found).all()
        np.testing.assert_allclose(found / 2.0**200, expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(
        huge.interaction_strengths(X[:5]) / 2.0**200, small.interaction_strengths(X[:5]), rtol=1e-6, atol=1e-9
    )


def test_the_interactions_of_a_huge_constant_are_none():
    X = np.random.default_rng(0).standard_normal((60, 3))
    model = rflaf.RFLAFRegressor(3, directions="random", random_state=0).fit(X, np.full(60, 3e200))
    assert not model.interaction_strengths(X).any()


def test_offsets_that_leave_no_numbers_are_refused_and_large_predictions_stay_finite():
    X = np.random.default_rng(0).standard_normal((60, 2))
    y, model = np.ones(60), rflaf.RFLAFRegressor(3, loss="tweedie", directions="random", random_state=0)
    with pytest.raises(rflaf.InvalidParameterError, match=r"y exp\(-offset\).* Divide the exposures"):
        model.fit(X, y, offset=np.where(X[:, 0] > 0, -800.0, 0.0))
    model.fit(X, y + (X[:, 0] > 0))
    assert np.isfinite(model.predict(X, offset=np.full(60, 1e4))).all()


def test_whole_numbers_beyond_double_precision_are_read_by_every_door(tmp_path):
    rng = np.random.default_rng(0)
    keys = rng.integers(2**55, 2**60, 60)
    frame = pd.DataFrame({"key": keys, "x": rng.standard_normal(60)}).assign(y=lambda frame: frame["x"] ** 2)
    pa.parquet.write_table(pa.Table.from_pandas(frame), tmp_path / "t.parquet")
    frame.to_csv(tmp_path / "t.csv", index=False)
    model = rflaf.RFLAFRegressor(3, directions="random", random_state=0)
    found = [
        model.fit(rows, "y").predict(frame)
        for rows in (frame, pa.Table.from_pandas(frame), tmp_path / "t.parquet", tmp_path / "t.csv")
    ]
    assert all(np.array_equal(found[0], other) for other in found)


@pytest.mark.slow
@pytest.mark.parametrize("unit", [1024, 1000])
def test_the_unit_of_the_columns_does_not_move_the_scores_of_a_convex_classifier(unit):
    X = np.random.default_rng(0).standard_normal((600, 4))
    labels = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 > 1
    scores = [
        RFLAFClassifier.convex(20, random_state=0, n_jobs=1).fit(rows, labels).decision_function(rows)
        for rows in (X, unit * X, X.astype(np.float32))
    ]
    assert np.abs(scores[1] - scores[0]).max() < 1e-6 * scores[0].std()
    assert np.abs(scores[2] - scores[0]).max() < 1e-2 * scores[0].std()


@pytest.mark.parametrize("dtype", [">f8", ">f4", ">i8", "longdouble"])
def test_numbers_of_any_machine_are_read_in_a_fit_and_after_it(dtype):
    X = np.round(np.random.default_rng(0).standard_normal((60, 2)) * 64)
    native, level = pd.DataFrame(X, columns=["a", "b"]), {"level": ["u", "v", "w"] * 20}
    for frame in (native, native.assign(**level)):
        foreign = frame.astype({"a": dtype, "b": dtype})
        model = RFLAFRegressor(4, directions="random", random_state=0).fit(frame, X[:, 0])
        again = RFLAFRegressor(4, directions="random", random_state=0).fit(foreign, X[:, 0])
        for question in ("predict", "predict_interval", "transform"):
            assert np.allclose(getattr(model, question)(foreign), getattr(model, question)(frame), rtol=0, atol=1e-3)
        assert np.allclose(again.predict(foreign), model.predict(frame), rtol=0, atol=1e-3)
        assert np.allclose(model.explain(foreign).values, model.explain(frame).values, rtol=0, atol=1e-3)


@pytest.mark.parametrize("unit", [1e300, 1e-300, 7.0])
def test_the_unit_of_weights_has_no_effect_on_statistics_of_levels(unit, tmp_path):
    X = np.random.default_rng(0).standard_normal(300)
    frame = pd.DataFrame({"x": X, "level": [f"level {i % 90}" for i in range(300)], "y": X * X, "w": 1.0})
    model = RFLAFRegressor(4, directions="random", random_state=0)
    wanted = model.fit(frame[["x", "level"]], frame["y"]).predict(frame)
    assert np.allclose(model.fit(frame[["x", "level"]], frame["y"], frame["w"] * unit).predict(frame), wanted)
    frame.assign(w=unit).to_parquet(tmp_path / "rows.parquet")
    model.fit(tmp_path / "rows.parquet", "y", sample_weight="w")
    assert np.allclose(model.predict(frame), wanted)


def test_targets_too_large_to_square_are_refused_beside_many_levels():
    X = np.random.default_rng(0).standard_normal(300)
    frame = pd.DataFrame({"x": X, "level": [f"level {i % 90}" for i in range(300)]})
    with pytest.raises(rflaf.InvalidParameterError, match="an overflow in column 0 of y"):
        RFLAFRegressor(4, directions="random", random_state=0).fit(frame, 1e200 * X)


def test_classes_of_weights_far_apart_leak_no_warning():
    X = np.random.default_rng(0).standard_normal((100, 2))
    model = RFLAFClassifier(4, directions="random", class_weight={False: 1e-300, True: 1e300}, random_state=0)
    assert model.fit(X, X[:, 0] > 0).predict(X).all()


@pytest.mark.slow
def test_a_target_far_out_that_weighs_nothing_breaks_nothing():
    X = np.random.default_rng(0).standard_normal((60, 2))
    y, weight = X[:, 0].copy(), np.ones(60)
    y[0], weight[0] = 1e60, 1e-200
    model = RFLAFRegressor(8, alpha=1.0, curves=False, random_state=0, n_jobs=1).fit(X, y, weight)
    assert np.abs(model.predict(X)[1:] - y[1:]).max() < 2


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("far", [np.longdouble("1e4000"), np.finfo(float).max])
def test_columns_of_a_table_beyond_double_precision_are_refused_without_a_warning(far):
    frame = pd.DataFrame({"far": np.resize([-far, far], 60), "word": ["u", "v", "w"] * 20})
    with pytest.raises(rflaf.InvalidParameterError, match=r"must be (a )?finite"):
        RFLAFRegressor(3, directions="random").fit(frame, np.arange(60))
