"""Offsets and exposures at the command line: the same model as from arrays, and the same predictions."""

from __future__ import annotations

import io
import json

import numpy as np
import pandas as pd
import pytest
from commands import output, refusal

from rflaf import RFLAFRegressor, load, load_predictor
from rflaf.cli import app as cli
from rflaf.export.serving import Limits, RequestError, answer

N = 300
QUICK = ("--width", "4", "--set", "directions=random", "--set", "alpha=0.001", "--test-share", "0", "--json")


@pytest.fixture(scope="module")
def claims(tmp_path_factory):
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"age": rng.uniform(18, 80, N), "town": rng.choice(["Rome", "Oslo", "Lima"], N)})
    rows["years"] = rng.uniform(0.1, 3, N)
    rows["claims"] = rng.poisson(rows["years"] * np.exp(-1 + 0.02 * (rows["age"] - 50)))
    path = tmp_path_factory.mktemp("claims") / "claims.csv"
    rows.to_csv(path, index=False)
    return path, rows


def fit(capsys, path, model, *options):
    command = ("fit", path, "--target", "claims", "--task", "regression", "--out", model, *QUICK, *options)
    return json.loads(output(capsys, *command))


@pytest.mark.parametrize("loss", ["poisson", "squared"])
def test_a_column_of_exposures_or_offsets_is_that_of_arrays(claims, capsys, tmp_path, loss):
    path, rows = claims
    flag, offset = ("--exposure", np.log(rows["years"])) if loss == "poisson" else ("--offset", rows["years"])
    said = fit(capsys, path, tmp_path / "m.rflaf", "--set", f"loss={loss}", flag, "years")
    assert "years" not in [line["column"] for line in said["decisions"] if line["read_as"] != "left out"]
    inputs = rows[["age", "town"]]
    alone = RFLAFRegressor(4, directions="random", alpha=0.001, loss=loss, random_state=0)
    alone.fit(inputs, rows["claims"].astype(float), offset=offset)
    found = load(tmp_path / "m.rflaf")
    np.testing.assert_allclose(found.predict(inputs), alone.predict(inputs), rtol=1e-6)
    printed = output(capsys, "predict", tmp_path / "m.rflaf", path).splitlines()
    expected = alone.predict(inputs, offset=offset)
    np.testing.assert_allclose([float(line) for line in printed[1:]], expected, rtol=1e-6)
    np.testing.assert_allclose(found.predict(rows, offset="years"), expected, rtol=1e-6)  # exposures have logarithms
    measured = json.loads(output(capsys, "evaluate", tmp_path / "m.rflaf", path, "--json"))
    error = np.sqrt(np.mean((expected - rows["claims"]) ** 2))
    np.testing.assert_allclose(measured["metrics"]["rmse"], error, rtol=1e-6)


def test_few_different_counts_are_numbers_beside_an_exposure_or_a_loss_of_numbers(claims, capsys, tmp_path):
    _, rows = claims
    few = tmp_path / "few.csv"
    rows.assign(claims=rows["claims"].clip(0, 3)).to_csv(few, index=False)
    base = ("fit", few, "--target", "claims", "--out", tmp_path / "few.rflaf", *QUICK)
    assert json.loads(output(capsys, *base))["task"] == "classification"
    for told in (("--offset", "years"), ("--set", "loss=huber"), ("--set", "loss=poisson", "--exposure", "years")):
        assert json.loads(output(capsys, *base, *told))["task"] == "regression"
    assert json.loads(output(capsys, *base, "--set", "loss=squared_hinge"))["task"] == "classification"


def test_what_an_offset_does_not_go_with_is_refused(claims, capsys, tmp_path):
    path, rows = claims
    poisson = ("--set", "loss=poisson")
    base = ("fit", path, "--target", "claims", "--out", tmp_path / "n.rflaf", *QUICK)
    task = ("--task", "regression")
    assert "exclude each other" in refusal(capsys, *base, *task, "--offset", "years", "--exposure", "age")
    assert "needs a regression" in refusal(capsys, *base, "--task", "classification", "--offset", "years")
    assert "another column than the target" in refusal(capsys, *base, *task, "--offset", "claims")
    bad = tmp_path / "bad.csv"
    rows.assign(years=rows["years"] - 0.2).to_csv(bad, index=False)
    base = ("fit", bad, *base[2:])
    assert "above zero" in refusal(capsys, *base, *task, *poisson, "--exposure", "years")
    assert not (tmp_path / "n.rflaf").exists()
    fit(capsys, path, tmp_path / "m.rflaf", *poisson, "--exposure", "years")
    model = tmp_path / "m.rflaf"
    rows.drop(columns="years").to_csv(tmp_path / "less.csv", index=False)
    assert "must have the exposure of the fit" in refusal(capsys, "predict", model, tmp_path / "less.csv")


def test_intervals_drift_report_and_programs_read_the_exposures_of_the_table(claims, capsys, tmp_path):
    path, rows = claims
    model = tmp_path / "m.rflaf"
    fit(capsys, path, model, "--set", "loss=poisson", "--exposure", "years", "--set", "directions=refined")
    fitted, offset, inputs = load(model), np.log(rows["years"]), rows[["age", "town"]]
    printed = output(capsys, "predict", model, path, "--interval", "0.8", "--std").splitlines()
    found = pd.read_csv(io.StringIO("\n".join(printed)))
    limits = fitted.predict_interval(inputs, 0.8, offset=offset)
    np.testing.assert_allclose(found[["lower(0.8)", "upper(0.8)"]], limits, rtol=1e-9)
    np.testing.assert_allclose(found["std"], fitted.predict(inputs, return_std=True, offset=offset)[1], rtol=1e-9)
    assert np.mean((limits[:, 0] <= rows["claims"]) & (rows["claims"] <= limits[:, 1])) > 0.75
    drift = json.loads(output(capsys, "check", model, path, "--json"))
    expected = fitted.loss_.value(
        (fitted(inputs) + offset).to_numpy()[:, None], rows["claims"].to_numpy(float)[:, None]
    )
    np.testing.assert_allclose(drift["error"], expected.sum() / rows["years"].sum(), rtol=1e-9)
    output(capsys, "report", model, "--data", path, "--out", tmp_path / "r.html")
    assert "prediction without the offset" in (tmp_path / "r.html").read_text()
    assert cli.run(["export", str(model), "--to", "c", "--out", str(tmp_path / "m.h")]) == 0
    assert "predicts without 'years', the offset of the fit: multiply its answer by it" in capsys.readouterr().err


def test_a_service_reads_the_offset_of_named_rows(claims, capsys, tmp_path):
    path, rows = claims
    fit(capsys, path, tmp_path / "m.rflaf", "--set", "loss=poisson", "--exposure", "years")
    predictor = load_predictor(tmp_path / "m.rflaf")
    body = json.dumps({"rows": rows.drop(columns="claims")[:3].to_dict("records")}).encode()
    expected = load(tmp_path / "m.rflaf").predict(rows[:3], offset=np.log(rows["years"][:3]))
    np.testing.assert_allclose(answer(predictor, body, Limits())["predictions"], expected, rtol=1e-9)
    bare = json.dumps({"rows": rows[["age", "town"]][:3].to_dict("records")}).encode()
    with pytest.raises(RequestError, match="must have the exposure of the fit"):
        answer(predictor, bare, Limits())


def test_a_column_of_exposures_named_to_a_loaded_model_is_one_of_exposures(claims, capsys, tmp_path):
    path, rows = claims
    fit(capsys, path, tmp_path / "m.rflaf", "--set", "loss=poisson", "--exposure", "years")
    model = load(tmp_path / "m.rflaf")
    expected = model.predict(rows, offset=np.log(rows["years"]))
    np.testing.assert_array_equal(model.predict(rows, offset="years"), expected)
    scores = [model.score(rows, "claims", offset=offset) for offset in ("years", np.log(rows["years"]))]
    assert scores[0] == scores[1]
    again = [load(tmp_path / "m.rflaf") for _ in range(2)]
    found = [
        one.partial_fit(rows, "claims", offset=offset).predict(rows)
        for one, offset in zip(again, ("years", np.log(rows["years"])), strict=True)
    ]
    np.testing.assert_allclose(*found)
