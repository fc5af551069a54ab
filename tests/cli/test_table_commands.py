"""plan and bench: what they say of a table, and how they say no."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from commands import output, refusal
from sklearn.model_selection import train_test_split

import rflaf
from rflaf import RFLAFRegressor
from rflaf.rows.files.chunks import read_table
from rflaf.rows.indicators import indicators
from rflaf.rows.tables import MISSING, make_encoding, summarise


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A table with numbers, a category and gaps, for a regression and for a classification."""
    rng = np.random.default_rng(0)
    x, town = rng.standard_normal((260, 2)), rng.choice(["Rome", "Oslo", "Lima"], 260)
    frame = pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "town": town})
    frame["price"] = np.abs(x[:, 0]) + (town == "Oslo") + 0.1 * x[:, 1]
    frame["dear"] = np.where(frame["price"] > 1, "yes", "no")
    frame.loc[::20, "b"] = np.nan
    path = tmp_path_factory.mktemp("tables") / "houses.csv"
    frame.to_csv(path, index=False)
    return path


def numbers_of(path):
    """The columns as `rflaf.rows.tables` encodes them, with indicators of levels, and the price."""
    table = read_table(path)
    encoding = make_encoding(summarise(table), {"price"}, (), MISSING)
    rows = indicators(encoding.transform(table), encoding.level_counts)
    return rows[:, rows.any(axis=0)], np.asarray(table["price"], dtype=float)


@pytest.mark.slow
def test_a_plan_is_that_of_python(data, capsys):
    said = json.loads(output(capsys, "plan", data, "--target", "price", "--json", "--seed", "3"))
    expected = rflaf.plan(*numbers_of(data), loss="squared", random_state=3)
    assert said["effective_dimension"] == pytest.approx(expected.effective_dimension, rel=1e-6)
    assert said["plain_width"] == expected.plain_width
    assert said["leverage_width"] == expected.leverage_width
    assert (said["enough_plain"], said["enough_greedy"]) == (expected.enough_plain, expected.enough_greedy)
    assert said["decay"]["case"] == expected.decay.case
    assert (said["rows"], said["columns"]) == (260, 7)


@pytest.mark.slow
def test_a_plan_is_a_table_and_a_picture(data, tmp_path, capsys):
    picture = tmp_path / "spectrum.png"
    said = output(capsys, "plan", data, "--target", "dear", "--out", picture, "--epsilon", "0.5", "--delta", "0.2")
    assert "effective dimension" in said
    assert "theory, leverage sampling" in said
    assert picture.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


@pytest.mark.slow
def test_labels_are_planned_for_by_the_theorem_of_other_losses(data, capsys):
    said = json.loads(output(capsys, "plan", data, "--target", "dear", "--epsilon", "0.4", "--json"))
    assert said["loss"] == "lipschitz"
    assert said["lambda"] == pytest.approx(0.01)


@pytest.mark.slow
def test_bench_measures_every_model_on_the_same_rows(data, capsys):
    said = json.loads(output(capsys, "bench", data, "--target", "price", "--width", "5", "--json"))
    by_name = {model["name"]: model for model in said["models"]}
    assert {"rflaf, 5", "the mean", "linear regression", "random Fourier features, 5"} <= set(by_name)
    X, y = numbers_of(data)
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.2, random_state=0)
    ours = RFLAFRegressor(5, random_state=0).fit(X_train, y_train)
    error = np.sqrt(np.mean((y_test - ours.predict(X_test)) ** 2))
    assert by_name["rflaf, 5"]["error"] == pytest.approx(error, rel=1e-6)
    assert by_name["the mean"]["error"] == pytest.approx(np.sqrt(np.mean((y_test - y_train.mean()) ** 2)), rel=1e-6)
    assert all(model["microseconds"] > 0 and model["fit_seconds"] > 0 for model in said["models"])


@pytest.mark.slow
def test_bench_shows_classifiers_from_the_best_on(data, capsys):
    said = output(capsys, "bench", data, "--target", "dear", "--width", "5")
    assert "log-loss" in said
    assert "class frequencies" in said.splitlines()[-2]  # knows nothing, so it comes last


@pytest.mark.parametrize("command", ["plan", "bench"])
def test_a_missing_file_and_a_missing_column_are_told(command, data, tmp_path, capsys):
    assert "nowhere.csv" in refusal(capsys, command, tmp_path / "nowhere.csv", "--target", "price")
    assert "'prise'" in refusal(capsys, command, data, "--target", "prise")


def test_numbers_outside_their_range_are_told(data, tmp_path, capsys):
    assert "delta must lie between 0 and 1" in refusal(capsys, "plan", data, "--target", "price", "--delta", "2")
    assert "epsilon must lie between 0 and 1" in refusal(capsys, "plan", data, "--target", "price", "--epsilon", "0")
    assert "--test-share" in refusal(capsys, "bench", data, "--target", "price", "--test-share", "1")
    nowhere = tmp_path / "none" / "picture.png"
    assert "folder" in refusal(capsys, "plan", data, "--target", "price", "--out", nowhere)
