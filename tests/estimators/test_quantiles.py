"""Several quantiles by one model, and targets of positive amounts, on every rung, saved, exported and by command."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm

import rflaf
from rflaf import InvalidParameterError, RFLAFRegressor
from rflaf.cli import app as cli
from rflaf.functions.losses import Huber, Tweedie

LEVELS = [0.05, 0.25, 0.5, 0.75, 0.95]
QUICK = {"curves": False, "alpha": 2e-2, "random_state": 0, "n_jobs": 1}
RUNGS = {
    "refined": QUICK,
    "random": {"directions": "random", "alpha": 1e-4, "random_state": 0},
    "shared": {"directions": "random", "activation": "shared", "alpha": 1e-4, "random_state": 0},
}
rng = np.random.default_rng(0)
X = rng.uniform(-2, 2, (3000, 2))
MEAN, SIZE = X[:, 0], 0.2 + 0.4 * np.abs(X[:, 1])
Y = MEAN + SIZE * rng.standard_normal(3000)
TRAIN, TEST = slice(0, 800), slice(800, None)


@pytest.fixture(scope="module", params=RUNGS)
def fan(request):
    return RFLAFRegressor(8, loss="quantile", quantile=LEVELS, **RUNGS[request.param]).fit(X[TRAIN], Y[TRAIN])


@pytest.fixture(scope="module")
def refined_fan():
    return RFLAFRegressor(8, loss="quantile", quantile=LEVELS, **QUICK).fit(X[TRAIN], Y[TRAIN])


def test_quantiles_are_near_the_true_ones_and_hold_their_shares(fan):
    found, truth = fan.predict(X[TEST]), MEAN[TEST, None] + SIZE[TEST, None] * norm.ppf(LEVELS)
    assert found.shape == (2200, 5)
    assert_allclose(np.mean(Y[TEST, None] <= found, axis=0), LEVELS, atol=0.06)
    assert np.mean(np.abs(found - truth)) < 0.25


def test_quantiles_never_cross_wherever_the_rows_are(fan):
    for size in (1, 10, 1e3, 1e6):
        rows = size * np.random.default_rng(1).standard_normal((20_000, 2))
        assert np.all(np.diff(fan.predict(rows), axis=1) >= 0)


def test_the_score_is_the_share_of_pinball_loss_saved(refined_fan):
    y, found, levels = Y[TEST], refined_fan.predict(X[TEST]), np.array(LEVELS)

    def pinball(q):
        off = y[:, None] - q
        return np.sum(np.maximum(levels * off, (levels - 1) * off))

    constant = np.quantile(y, LEVELS, method="inverted_cdf")
    assert refined_fan.score(X[TEST], y) == pytest.approx(1 - pinball(found) / pinball(constant), abs=2e-3)


def test_several_quantiles_are_saved_and_wrapped_in_intervals(refined_fan, tmp_path):
    rflaf.save(refined_fan, tmp_path / "fan.rflaf")
    again = rflaf.load(tmp_path / "fan.rflaf")
    assert_array_equal(again.predict(X[TEST]), refined_fan.predict(X[TEST]))
    assert_allclose(rflaf.load_predictor(tmp_path / "fan.rflaf").predict(X[:9]), refined_fan.predict(X[:9]))
    limits = refined_fan.predict_interval(X[TEST], [0.5, 0.9])
    assert_array_equal(again.predict_interval(X[TEST], [0.5, 0.9]), limits)
    inside = np.mean((limits[..., 0] <= Y[TEST, None]) & (Y[TEST, None] <= limits[..., 1]), axis=0)
    assert_allclose(inside, [0.5, 0.9], atol=0.05)
    assert again.get_params()["quantile"] == LEVELS


def test_rows_in_files_and_later_rows_are_taken_too(refined_fan, tmp_path):
    frame = pd.DataFrame(X[TRAIN], columns=["a", "b"]).assign(y=Y[TRAIN])
    frame.to_parquet(tmp_path / "rows.parquet")
    settings = {"loss": "quantile", "quantile": LEVELS, **RUNGS["random"]}
    streamed = RFLAFRegressor(4, **settings).fit(str(tmp_path / "rows.parquet"), "y")
    assert_allclose(streamed.predict(X[:9]), RFLAFRegressor(4, **settings).fit(frame, "y").predict(X[:9]), atol=1e-6)
    later = streamed.partial_fit(X[800:1200], Y[800:1200])
    assert np.all(np.diff(later.predict(X), axis=1) >= 0)


@pytest.mark.slow
def test_exports_put_quantiles_in_order(tmp_path):
    X_few, y_few = X[:60], Y[:60]
    model = RFLAFRegressor(3, loss="quantile", quantile=LEVELS, **RUNGS["shared"]).fit(X_few, y_few)
    far = 50 * np.random.default_rng(2).standard_normal((200, 2))
    assert np.any(np.diff(model.model_.decision(far), axis=1) < 0)
    onnxruntime = pytest.importorskip("onnxruntime")
    graph = rflaf.to_onnx(model, dtype=np.float64)
    session = onnxruntime.InferenceSession(graph.SerializeToString())
    assert_allclose(session.run(None, {"X": far})[0], model.predict(far), rtol=1e-9, atol=1e-9)
    duckdb = pytest.importorskip("duckdb")
    rflaf.to_source(model, tmp_path / "model.sql", language="sql", name="rows")
    table = pd.DataFrame(far, columns=["x0", "x1"])
    connection = duckdb.connect()
    connection.register("rows", table)
    answers = connection.sql((tmp_path / "model.sql").read_text()).df().filter(like="prediction").to_numpy()
    assert_allclose(answers, model.predict(far), rtol=1e-9, atol=1e-9)


def test_the_command_line_writes_a_column_per_quantile(tmp_path, capsys):
    pd.DataFrame(X[:200], columns=["a", "b"]).assign(price=Y[:200]).to_csv(tmp_path / "rows.csv", index=False)
    settings = ["loss=quantile", "quantile=[0.1,0.9]", "directions=random", "alpha=1e-4"]
    options = [part for setting in settings for part in ("--set", setting)]
    files = [str(tmp_path / name) for name in ("rows.csv", "model.rflaf", "out.csv")]
    assert cli.run(["fit", files[0], "--target", "price", "--out", files[1], "--width", "3", *options]) == 0
    assert cli.run(["predict", files[1], files[0], "--out", files[2]]) == 0
    table = pd.read_csv(files[2])
    assert list(table.columns) == ["price(0.1)", "price(0.9)"]
    assert (table["price(0.1)"] <= table["price(0.9)"]).all()


@pytest.mark.parametrize("quantile", [[], [0.9, 0.1], [0.5, 1.0], ["a"], 1.0])
def test_levels_that_do_not_rise_are_refused(quantile):
    with pytest.raises(InvalidParameterError, match="quantile must be a number between 0 and 1"):
        RFLAFRegressor(3, loss="quantile", quantile=quantile).fit(X[:30], Y[:30])


def test_several_quantiles_of_several_targets_are_refused():
    with pytest.raises(InvalidParameterError, match="several quantiles are those of a single target"):
        RFLAFRegressor(3, loss="quantile", quantile=[0.1, 0.9]).fit(X[:30], X[:30])


@pytest.mark.parametrize("rung", ["refined", "random"])
@pytest.mark.parametrize("loss", ["gamma", "tweedie", Tweedie(1.8)], ids=str)
def test_amounts_are_learned_on_every_rung(loss, rung, tmp_path):
    mean = np.exp(0.5 * X[:, 0])
    y = rng.gamma(3, mean / 3) * (1 if loss == "gamma" else (rng.random(3000) < 0.7) / 0.7)
    model = RFLAFRegressor(6, loss=loss, **RUNGS[rung]).fit(X[TRAIN], y[TRAIN])
    assert np.mean((np.log(model.predict(X[TEST])) - np.log(mean[TEST])) ** 2) < 0.06
    rflaf.save(model, tmp_path / "model.rflaf")
    assert_array_equal(rflaf.load(tmp_path / "model.rflaf").predict(X[:9]), model.predict(X[:9]))


# Offsets


@pytest.mark.parametrize("loss", ["poisson", "gamma", "tweedie"])
def test_the_exposure_of_a_row_multiplies_its_mean(loss):
    exposure = rng.uniform(0.2, 5, 3000)
    mean = exposure * np.exp(0.5 * X[:, 0])
    y = rng.poisson(mean).astype(float) if loss == "poisson" else rng.gamma(3, mean / 3)
    model = RFLAFRegressor(6, loss=loss, **RUNGS["random"]).fit(X[TRAIN], y[TRAIN], offset=np.log(exposure[TRAIN]))
    found = model.predict(X[TEST], offset=np.log(exposure[TEST]))
    assert np.mean((np.log(found) - np.log(mean[TEST])) ** 2) < 0.06
    assert_allclose(found, exposure[TEST] * model.predict(X[TEST]))


def test_an_offset_of_residuals_is_subtracted_and_added():
    offset = 10 * X[:, 1]
    model = RFLAFRegressor(6, **RUNGS["random"]).fit(X[TRAIN], Y[TRAIN] + offset[TRAIN], offset=offset[TRAIN])
    plain = RFLAFRegressor(6, **RUNGS["random"]).fit(X[TRAIN], Y[TRAIN])
    assert_allclose(model.predict(X, offset=offset), plain.predict(X) + offset, atol=1e-6)


def test_offsets_that_cannot_be_used_are_refused():
    model = RFLAFRegressor(3, **RUNGS["random"])
    with pytest.raises(InvalidParameterError, match=r"offset must be 30 finite numbers, one per row.*np.log"):
        model.fit(X[:30], Y[:30], offset=np.ones(29))
    with pytest.raises(InvalidParameterError, match="could not convert string to float: 'a'"):
        model.fit(X[:30], Y[:30], offset=["a"] * 30)
    with pytest.raises(InvalidParameterError, match="nan in row 3"):
        model.fit(X[:30], Y[:30], offset=np.where(np.arange(30) == 3, np.nan, 1.0))
    with pytest.raises(InvalidParameterError, match="an offset needs targets given as an array, or as a column"):
        model.fit(X[:30], "y", offset=np.ones(30))


# Losses of one's own


class OwnHuber(Huber):
    """The Huber loss without a compiled loop."""

    def kernel(self):
        return None

    def scaled(self, scale):
        return OwnHuber(self.delta / scale)


@pytest.mark.slow
def test_a_loss_of_ones_own_trains_a_refined_model_as_the_compiled_one_does():
    settings = {"curves": False, "alpha": 1e-2, "random_state": 0, "n_jobs": 1}
    own, compiled = (
        RFLAFRegressor(8, loss=loss, **settings).fit(X[:300], Y[:300]) for loss in (OwnHuber(0.5), Huber(0.5))
    )
    assert_allclose(own.predict(X[TEST]), compiled.predict(X[TEST]), atol=0.02)
    assert own.score(X[TEST], Y[TEST]) > 0.5


# Later rows


def test_a_column_that_begins_to_vary_later_is_named_once():
    rows = np.column_stack([X[:200], np.zeros(200)])
    model = RFLAFRegressor(4, **RUNGS["random"]).partial_fit(rows, Y[:200])
    later = np.column_stack([X[200:300], X[300:400, 0]])
    with pytest.warns(UserWarning, match=r"later rows have others: number 2\. Call fit with rows of both"):
        model.partial_fit(later, Y[200:300])
    model.partial_fit(later, Y[200:300])  # a second warning would be an error
