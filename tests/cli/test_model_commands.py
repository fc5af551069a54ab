"""fit, predict, evaluate, inspect, export and report: what they say, what they write, and how they say no."""

from __future__ import annotations

import csv
import json
import os
import re
import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from commands import output, refusal
from rich.console import Console
from settings import CONVEX

import rflaf
from rflaf import RFLAFClassifier, RFLAFRegressor
from rflaf.cli import app as cli
from rflaf.cli import console
from rflaf.export.model_file import describe_file
from rflaf.rows.files import RowChoice, Table
from rflaf.rows.files.chunks import read_table
from rflaf.rows.indicators import indicators
from rflaf.rows.tables import make_encoding, summarise

ROOT = Path(__file__).parent.parent.parent
NO_FILE, NO_FOLDER = str(Path("/no/such.csv")), str(Path("/no/such/m.rflaf"))
QUICK = ["--width", "5", "--set", "directions=random"]


def houses(n_rows=150, seed=0):
    """A made-up table with numbers, categories, dates, gaps and a target of numbers."""
    rng = np.random.default_rng(seed)
    area, town = rng.uniform(30, 200, n_rows).round(1), rng.choice(["Rome", "Oslo", "Lima"], n_rows)
    price = (area * (2 + (town == "Oslo")) + rng.standard_normal(n_rows)).round(2)
    frame = pd.DataFrame({"area": area.astype(object), "town": town, "price": price})
    frame["built"] = [f"{1950 + i % 60}-03-{1 + i % 28:02d}" for i in range(n_rows)]
    frame["same"] = 1
    frame.loc[::10, "area"] = "?"
    return frame


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with data, and models fitted by the command line."""
    folder = tmp_path_factory.mktemp("commands")
    frame = houses()
    frame.to_csv(folder / "houses.csv", index=False)
    houses(40, seed=1).to_csv(folder / "sold.csv", index=False)
    houses(30, seed=2).drop(columns="price").to_csv(folder / "new.csv", index=False)
    frame.assign(dear=np.where(frame["price"] > 250, "yes", "no")).drop(columns="price").to_csv(
        folder / "dear.csv", index=False
    )
    for data, target in (("houses", "price"), ("dear", "dear")):
        arguments = ["fit", f"{folder}/{data}.csv", "--target", target, "--out", f"{folder}/{data}.rflaf", *QUICK]
        assert cli.run(arguments) == 0
    return folder


def test_fit_says_what_it_does_and_writes_a_model(folder, tmp_path, capsys):
    printed = output(capsys, "fit", folder / "houses.csv", "--target", "price", "--out", tmp_path / "m.rflaf", *QUICK)
    assert "regression of 'price': it holds numbers, 150 different" in printed
    assert "left out 'same': it is constant" in printed
    assert "3 columns as 6 numbers, 5 components" in printed
    assert "measured on 30 rows it has not seen, fitted to 120:" in printed
    assert "r2" in printed
    model = rflaf.load(tmp_path / "m.rflaf")
    assert isinstance(model, RFLAFRegressor)
    assert model.target_encoding_.name == "price"
    assert list(tmp_path.iterdir()) == [tmp_path / "m.rflaf"]


def test_the_same_command_writes_the_same_model(folder, tmp_path, capsys):
    predictions = []
    for name in ("a", "b"):
        output(capsys, "fit", folder / "houses.csv", "--target", "price", "--out", tmp_path / name, *QUICK)
        predictions.append(output(capsys, "predict", tmp_path / name, folder / "new.csv"))
    assert predictions[0] == predictions[1]


def test_fit_reports_what_python_gets(folder, tmp_path, capsys):
    path = tmp_path / "m.rflaf"
    said = json.loads(
        output(capsys, "fit", folder / "houses.csv", "--target", "price", "--out", path, "--json", "--seed", 3, *QUICK)
    )
    table = Table(folder / "houses.csv", rows=RowChoice(0.2, seed=3))
    model = RFLAFRegressor(5, directions="random", random_state=3).fit(table, "price")
    held_out = replace(table, rows=RowChoice(0.2, seed=3, held_out=True))
    assert said["metrics"]["r2"] == pytest.approx(model.score(held_out, "price"), rel=1e-12)
    whole = read_table(folder / "houses.csv")
    train, test = (whole.filter(pa.array(RowChoice(0.2, 3, held).mask(0, 150))) for held in (False, True))
    encoding, y = make_encoding(summarise(train), exclude=["price"]), np.asarray(train["price"], float)
    of_levels = [indicators(encoding.transform(rows), encoding.level_counts) for rows in (train, test)]
    in_memory = RFLAFRegressor(5, directions="random", random_state=3).fit(of_levels[0], y)
    expected = in_memory.score(of_levels[1], np.asarray(test["price"], float))
    assert said["metrics"]["r2"] == pytest.approx(expected, rel=1e-9)
    assert said["rows"] == {"train": 120, "test": 30}
    assert said["dropped"] == {"same": "it is constant"}
    assert said["bytes"] == path.stat().st_size
    provenance = describe_file(path)["provenance"]
    assert provenance["metrics"] == said["metrics"]
    assert provenance["data"] == "houses.csv"
    assert re.fullmatch("[0-9a-f]{64}", provenance["data_sha256"])


def test_fit_can_be_told_otherwise(folder, tmp_path, capsys):
    path = tmp_path / "m.rflaf"
    arguments = ["fit", folder / "houses.csv", "--target", "2", "--out", path, *QUICK, "--json", "--test-share", "0",
                 "--drop", "town", "--drop", "same", "--missing", "1", "--set", "alpha=0.001",
                 "--set", "sampling=greedy", "--set", "pool_size=40", "--set", "n_basis=9"]  # fmt: skip
    said = json.loads(output(capsys, *arguments))
    assert said["target"] == "price"
    assert said["metrics"] == {}
    assert said["dropped"] == {}
    estimator = rflaf.load(path)
    assert estimator.alpha == 0.001
    assert (estimator.sampling, estimator.basis) == (rflaf.GreedySelection(40), rflaf.BSplineBasis(9))
    arguments = ["fit", folder / "houses.csv", "--target", "price", "--out", path, *QUICK, "--json"]
    said = json.loads(output(capsys, *arguments, "--test", folder / "sold.csv", "--category", "built"))
    assert said["rows"] == {"train": 150, "test": 40}
    assert {line["column"]: line["read_as"] for line in said["decisions"]}["built"].startswith("category, 150 levels")
    printed = output(
        capsys, "fit", folder / "houses.csv", "--target", "price", "--out", path, *QUICK, "--test-share", 0
    )
    assert "fitted to all 150 rows, not measured" in printed


def test_a_classifier_is_fitted_where_the_target_is_text(folder, capsys):
    said = json.loads(output(capsys, "evaluate", folder / "dear.rflaf", folder / "dear.csv", "--json"))
    assert said["task"] == "classification"
    assert set(said["metrics"]) == {"accuracy", "log_loss", "brier", "ece", "auc"}
    rows = list(csv.DictReader(output(capsys, "predict", folder / "dear.rflaf", folder / "new.csv", "--probabilities")
                               .splitlines()))  # fmt: skip
    assert list(rows[0]) == ["dear", "p(no)", "p(yes)"]
    assert {row["dear"] for row in rows} == {"no", "yes"}
    for row in rows:
        assert float(row["p(no)"]) + float(row["p(yes)"]) == pytest.approx(1)
        assert (float(row["p(yes)"]) > 0.5) == (row["dear"] == "yes")


def test_probabilities_have_standard_deviations(folder, tmp_path, capsys):
    frame = pd.read_csv(folder / "dear.csv")
    for name, loss in (("dear", "log_loss"), ("margins", "squared_hinge")):
        rflaf.save(rflaf.RFLAFClassifier(16, loss=loss, random_state=0).fit(frame, "dear"), tmp_path / f"{name}.rflaf")
    printed = output(capsys, "predict", tmp_path / "dear.rflaf", folder / "dear.csv", "--std").splitlines()
    assert printed[0] == "dear,std(no),std(yes)"
    expected = rflaf.load(tmp_path / "dear.rflaf").predict_proba(frame, return_std=True)[1]
    assert np.allclose([[float(cell) for cell in line.split(",")[1:]] for line in printed[1:]], expected)
    line = refusal(capsys, "predict", tmp_path / "margins.rflaf", folder / "dear.csv", "--std")
    assert "--std needs a regression, or probabilities; got 'squared_hinge'" in line


@pytest.mark.parametrize("suffix", ["csv", "parquet", "npz"])
def test_predictions_are_those_of_python(folder, tmp_path, capsys, suffix):
    out = tmp_path / f"out.{suffix}"
    printed = output(capsys, "predict", folder / "houses.rflaf", folder / "new.csv", "--out", out, "--std")
    assert printed == f"30 predictions: {out}\n"
    table = read_table(out)
    assert table.column_names == ["price", "std"]
    model = rflaf.load(folder / "houses.rflaf")
    assert np.allclose(np.asarray(table["price"], float), model.predict(read_table(folder / "new.csv")), rtol=1e-12)


def test_intervals_and_sets_of_labels_are_those_of_python(folder, tmp_path, capsys):
    new, both = pd.read_csv(folder / "new.csv"), ["--interval", "0.9", "--interval", "0.5"]
    output(capsys, "predict", folder / "houses.rflaf", folder / "new.csv", "--out", tmp_path / "out.csv", *both)
    table = pd.read_csv(tmp_path / "out.csv")
    expected = rflaf.load(folder / "houses.rflaf").predict_interval(new, [0.9, 0.5])
    assert list(table.columns) == ["price", "lower(0.9)", "upper(0.9)", "lower(0.5)", "upper(0.5)"]
    assert np.allclose(table.to_numpy()[:, 1:].reshape(-1, 2, 2), expected)
    classifier = rflaf.load(folder / "dear.rflaf").calibrate(pd.read_csv(folder / "dear.csv"), "dear")
    rflaf.save(classifier, tmp_path / "dear.rflaf")
    output(capsys, "predict", tmp_path / "dear.rflaf", folder / "new.csv", "--out", tmp_path / "out.csv", *both)
    found = pd.read_csv(tmp_path / "out.csv", dtype=str)["set(0.9)"].str.split("|")
    sets = classifier.predict_set(new, 0.9)
    assert [list(labels) for labels in found] == [list(classifier.classes_[row].astype(str)) for row in sets]


def test_predictions_can_be_printed(folder, capsys):
    lines = output(capsys, "predict", folder / "houses.rflaf", folder / "new.csv").splitlines()
    assert lines[0] == "price"
    assert len(lines) == 31
    first = output(capsys, "predict", folder / "houses.rflaf", folder / "new.csv", "--json").splitlines()[0]
    assert json.loads(first)["price"] == float(lines[1])


def test_columns_may_be_reordered_and_others_added_but_not_missing(folder, tmp_path, capsys):
    frame = pd.read_csv(folder / "new.csv")
    expected = output(capsys, "predict", folder / "houses.rflaf", folder / "new.csv")
    frame[frame.columns[::-1]].assign(extra="x").to_csv(tmp_path / "other.csv", index=False)
    assert output(capsys, "predict", folder / "houses.rflaf", tmp_path / "other.csv") == expected
    frame.drop(columns="town").to_csv(tmp_path / "less.csv", index=False)
    line = refusal(capsys, "predict", folder / "houses.rflaf", tmp_path / "less.csv", "--out", tmp_path / "out.csv")
    assert "'town' is missing" in line
    assert not (tmp_path / "out.csv").exists()


def test_inspect_tells_what_is_in_a_file_and_runs_nothing(folder, capsys, monkeypatch):
    monkeypatch.setattr("rflaf.export.model_file.build", lambda *parts: 1 / 0)
    printed = output(capsys, "inspect", folder / "dear.rflaf")
    assert "RFLAFClassifier of rflaf" in printed
    assert "classification of 'dear'" in printed
    assert "classes: no, yes" in printed
    assert re.search(r"town +│ category: Lima, Oslo, Rome", printed)
    assert "model.directions.W F64" in printed
    about = json.loads(output(capsys, "inspect", folder / "dear.rflaf", "--json"))
    assert about["class"] == "RFLAFClassifier"


def test_inspect_and_export_take_a_bare_estimator_but_predict_does_not(folder, tmp_path, capsys):
    X = np.random.default_rng(0).standard_normal((60, 2))
    rflaf.save(RFLAFRegressor(3, **CONVEX).fit(X, X[:, 0]), tmp_path / "bare.rflaf")
    assert "RFLAFRegressor" in output(capsys, "inspect", tmp_path / "bare.rflaf")
    line = refusal(capsys, "predict", tmp_path / "bare.rflaf", folder / "new.csv")
    assert "must know the columns of its table; got 'a bare RFLAFRegressor'" in line


@pytest.mark.parametrize(("language", "name"), [("onnx", "m.onnx"), ("c", "m.h")])
def test_a_model_is_exported(folder, tmp_path, capsys, language, name):
    printed = output(capsys, "export", folder / "houses.rflaf", "--to", language, "--out", tmp_path / name)
    assert printed == f"{language}: {tmp_path / name}, {(tmp_path / name).stat().st_size:,} bytes\n"
    if language == "c":
        assert "void rflaf_predict(const float *x, float *out)" in (tmp_path / name).read_text()


def reported(capsys, folder, out, *options):
    """The first line that the command prints, and the page."""
    printed = output(capsys, "report", folder / "houses.rflaf", "-o", out, *options)
    assert printed.endswith(f"report: {out}\n")
    return printed.splitlines()[0], out.read_text()


@pytest.mark.slow
def test_a_report_finds_the_rows_of_the_fit_beside_the_model(folder, tmp_path, capsys):
    said, page = reported(capsys, folder, tmp_path / "r.html", "--data", folder / "sold.csv")
    assert said == "scored on 40 rows, other models fitted on 120"
    assert "A model of price" in page
    assert "fitted on the same 120 rows and scored on 40 others" in page


@pytest.mark.slow
def test_a_report_on_the_table_of_the_fit_scores_only_the_rows_held_out(folder, tmp_path, capsys):
    said, page = reported(capsys, folder, tmp_path / "r.html", "--data", folder / "houses.csv")
    assert said == "scored on 30 rows, other models fitted on 120"
    rmse = json.loads(json.dumps(describe_file(folder / "houses.rflaf")["provenance"]["metrics"]))["rmse"]
    assert f"Root mean square error {console.figure_of(rmse)} " in page  # as fit measured it


@pytest.mark.slow
def test_a_report_on_other_training_rows_states_no_lead(folder, tmp_path, capsys):
    said, page = reported(
        capsys, folder, tmp_path / "r.html", "--data", folder / "houses.csv", "--train", folder / "sold.csv"
    )
    assert said.endswith("sold.csv is not the table of the fit: its fingerprint differs, so no lead is stated")
    assert "than the best baseline" not in page


@pytest.mark.slow
def test_a_report_without_the_rows_of_the_fit_compares_nothing(folder, tmp_path, capsys):
    for name in ("houses.rflaf", "sold.csv"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    said, page = reported(capsys, tmp_path, tmp_path / "r.html", "--data", tmp_path / "sold.csv")
    assert "no other model is compared" in said
    assert "LightGBM" not in page


def test_the_version_is_printed_by_option_and_by_command(capsys):
    assert output(capsys, "--version") == output(capsys, "version") == f"{rflaf.__version__}\n"


def test_help_names_values_in_plain_words(capsys):
    for command in ("fit", "bench", "report"):
        assert "list[" not in output(capsys, command, "--help")


def spoilt(folder, tmp_path, **columns):
    path = tmp_path / "spoilt.csv"
    pd.read_csv(folder / "houses.csv", dtype=str).assign(**columns).to_csv(path, index=False)
    return path


MIXED = ["inf", *(str(i * i % 150 / 7) for i in range(149))]
BAD_TABLES = {
    "the target 'price' must vary; got \"'3' in every row\"": {"price": 3},
    "the target 'price' must be known in every row; got 'no value at all'": {"price": "?"},
    "the target 'price' must be known in every row; got '1 missing of 150'": {"price": ["", *range(149)]},
    "numbers of column 'area' must be finite": {"area": MIXED},
}


@pytest.mark.parametrize("message", BAD_TABLES)
def test_a_table_that_cannot_be_learned_is_refused(message, folder, tmp_path, capsys):
    data = spoilt(folder, tmp_path, **BAD_TABLES[message])
    line = refusal(capsys, "fit", data, "--target", "price", "--out", tmp_path / "m.rflaf", *QUICK)
    assert message in line
    assert sorted(path.name for path in tmp_path.iterdir()) == ["spoilt.csv"]


def test_mistakes_of_every_kind_are_one_line(folder, tmp_path, capsys):
    data, model = folder / "houses.csv", folder / "houses.rflaf"
    (tmp_path / "twice.csv").write_text("x,x,y\n" + "1,2,3\n" * 20)
    (tmp_path / "short.csv").write_text("x,y\n1,2\n2,3\n")
    (tmp_path / "head.csv").write_text("area,town,built,price\n")
    before = sorted(path.name for path in tmp_path.iterdir())
    fit = ["fit", data, "--target", "price", "--out", tmp_path / "m.rflaf", *QUICK]
    cases = {
        "the table must have the column 'cost'": ["fit", data, "--target", "cost", *fit[4:]],
        "Missing option '--target'": ["fit", data],
        f"the data must be a file; got {NO_FILE!r}": ["fit", NO_FILE, *fit[2:]],
        "the target 'y' must vary": ["fit", tmp_path / "twice.csv", "--target", "y", *fit[4:]],
        "must have at least 10 rows; got 2": ["fit", tmp_path / "short.csv", "--target", "y", *fit[4:]],
        f"a folder that exists; got {NO_FOLDER!r}": [*fit, "--out", NO_FOLDER],
        "the output must not be a file that is read": [*fit, "--out", data],
        "--set must be NAME=VALUE; got 'loss'": [*fit, "--set", "loss"],
        "parameters must be those of RFLAFRegressor; got ['colour']": [*fit, "--set", "colour=red"],
        "max_iter is no argument any more; got 9. Leave it out": [*fit, "--set", "max_iter=9"],
        "alpha must be 'auto' or a number": [*fit, "--set", "alpha=-1"],
        "n_components must be 'auto' or a whole number": [*fit, "--width", "wide"],
        "share of rows to measure on must be from 0 to 1": [*fit, "--test-share", "2"],
        "the rows must be enough to hold some out": [*fit, "--test-share", "0.999"],
        "the table must have the column 'garden'": [*fit, "--drop", "garden"],
        "Invalid value for '--task'": [*fit, "--task", "ranking"],
        "the target 'town' of a regression must hold numbers": [*fit, "--target", "town", "--task", "regression"],
        "cannot be read as a model": ["predict", data, data],
        "No such file or directory": ["predict", "/no/such.rflaf", data],
        "--probabilities needs a classifier": ["predict", model, data, "--probabilities"],
        "coverage must be a number between 0 and 1": ["predict", folder / "houses.rflaf", data, "--interval", "1.5"],
        "return_std=True needs directions='refined'": ["predict", folder / "dear.rflaf", data, "--std"],
        "the table must have rows": ["predict", model, tmp_path / "head.csv", "--out", tmp_path / "out.csv"],
        "the table must have the target 'price'": ["evaluate", model, folder / "new.csv"],
    }
    for message, arguments in cases.items():
        assert message in refusal(capsys, *arguments), message
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_debug_works_anywhere_and_shows_the_traceback(folder):
    with pytest.raises(ValueError, match="the data must be a file"):
        cli.run(["fit", "/no/such.csv", "--target", "y", "--out", str(folder / "m"), "--debug"])


def test_an_interruption_has_its_own_exit_code(monkeypatch, folder):
    def interrupt(*arguments, **others):
        raise KeyboardInterrupt

    monkeypatch.setattr("rflaf.cli.fit_command.scan_table", interrupt)
    assert cli.run(["fit", str(folder / "houses.csv"), "--target", "price", "--out", str(folder / "m")]) == 130


@pytest.mark.parametrize("command", ["fit", "predict", "evaluate", "inspect", "export", "report", "demo"])
def test_help_has_an_example(command, capsys):
    printed = output(capsys, command, "--help")
    assert f"Example:  rflaf {command}" in printed


@pytest.mark.slow
def test_outliers_are_told_beside_the_result(tmp_path, capsys, small_pool):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (1000, 2))
    y = np.sin(2 * X[:, 0]) + X[:, 1]
    y[rng.choice(1000, 10, replace=False)] += 20
    pd.DataFrame({"x": X[:, 0], "z": X[:, 1], "y": y}).to_csv(tmp_path / "a.csv", index=False)
    arguments = ["--out", str(tmp_path / "m"), "--width", "10", "--test-share", "0", "--set", "curves=false"]
    assert cli.run(["fit", str(tmp_path / "a.csv"), "--target", "y", *arguments]) == 0
    captured = capsys.readouterr()
    assert captured.err.startswith("rflaf: ")
    assert "outliers" in captured.err
    assert "not measured" in captured.out


def test_work_is_shown_on_a_terminal_only(monkeypatch, capsys):
    import logging

    with console.working("fitting"):
        logging.getLogger("rflaf").info("line 1")
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(console, "errors", lambda: Console(stderr=True, force_terminal=True))
    with console.working("fitting"):
        logging.getLogger("rflaf").info("epoch [3]")
    assert "fitting" in capsys.readouterr().err


def test_a_column_without_a_value_is_refused_until_it_is_left_out(tmp_path, capsys):
    houses().assign(none="?").to_csv(tmp_path / "gaps.csv", index=False)
    arguments = ["fit", tmp_path / "gaps.csv", "--target", "price", "--out", tmp_path / "m.rflaf", *QUICK]
    assert "every column must have a value; got ['none']. Leave it out: --drop 'none'." in refusal(capsys, *arguments)
    assert not (tmp_path / "m.rflaf").exists()
    assert "regression of 'price'" in output(capsys, *arguments, "--drop", "none")


def test_memory_is_obeyed_or_refused(folder, tmp_path, capsys):
    arguments = ["fit", folder / "houses.csv", "--target", "price", "--out", tmp_path / "m.rflaf", *QUICK]
    free = json.loads(output(capsys, *arguments, "--json"))["metrics"]
    bound = json.loads(output(capsys, *arguments, "--json", "--memory", "100MB"))["metrics"]
    assert bound == pytest.approx(free, rel=1e-6)
    assert rflaf.load(tmp_path / "m.rflaf").memory == 100_000_000
    assert "memory must hold the first look" in refusal(capsys, *arguments, "--memory", "1MB")
    assert "--memory must be a number of bytes; got 'much'" in refusal(capsys, *arguments, "--memory", "much")


def test_classes_only_among_rows_held_out_are_named(folder, tmp_path, capsys):
    held_out = int(np.flatnonzero(RowChoice(0.2, 0, held_out=True).mask(0, 150))[0])
    frame = pd.read_csv(folder / "dear.csv", dtype=str)
    frame.loc[held_out, "dear"] = "never"
    frame.to_csv(tmp_path / "dear.csv", index=False)
    arguments = ["fit", tmp_path / "dear.csv", "--target", "dear", "--out", tmp_path / "m.rflaf", *QUICK]
    assert cli.run([str(argument) for argument in arguments]) == 0
    captured = capsys.readouterr()
    assert "only among the rows held out, which the model cannot predict: never" in captured.err
    assert "accuracy" in captured.out


@pytest.mark.slow
def test_every_command_takes_a_model_that_python_fitted_to_a_file(folder, tmp_path, capsys):
    for data, kind, target in (("houses", RFLAFRegressor, "price"), ("dear", RFLAFClassifier, "dear")):
        model = kind(5, directions="random", random_state=0).fit(folder / f"{data}.csv", target)
        path = tmp_path / f"{data}.rflaf"
        rflaf.save(model, path)
        printed = output(capsys, "predict", path, folder / "new.csv").splitlines()
        assert printed[0] == target
        assert printed[1:] == [str(value) for value in model.predict(folder / "new.csv").tolist()]
        said = json.loads(output(capsys, "evaluate", path, folder / f"{data}.csv", "--json"))
        score = said["metrics"]["r2" if target == "price" else "accuracy"]
        assert score == pytest.approx(model.score(folder / f"{data}.csv", target), rel=1e-12)
        assert f"of '{target}'" in output(capsys, "inspect", path)
        output(capsys, "report", path, "--data", folder / f"{data}.csv", "--out", tmp_path / "r.html")
        for language in ("c", "onnx"):
            output(capsys, "export", path, "--to", language, "--out", tmp_path / f"m.{language}")


def documented_commands():
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    for page in pages:
        for block in re.findall(r"```sh\n(.*?)```", page.read_text(), re.DOTALL):
            for line in block.splitlines():
                if re.match("rflaf (fit|predict|evaluate|inspect|export|report|plan|bench)", line):
                    yield pytest.param(line, id=f"{page.name}: {line}")


@pytest.mark.slow
@pytest.mark.parametrize("line", list(documented_commands()))
def test_a_documented_command_runs(line, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    words = shlex.split(line.split("#")[0].split(">")[0])[1:]
    quicker = {"fit": QUICK, "bench": ["--width", "5"]}
    assert cli.run(words + quicker.get(words[0], [])) == 0


def real(*names):
    folder = os.environ.get("RFLAF_DATA_DIR")
    if not folder or not Path(folder, *names).is_file():
        pytest.skip("RFLAF_DATA_DIR is not set")
    return Path(folder, *names)


@pytest.mark.slow
@pytest.mark.realdata
def test_the_score_of_protein_is_that_of_python(tmp_path, capsys):
    data = real("protein", "CASP.csv")
    path = tmp_path / "m.rflaf"
    said = json.loads(output(capsys, "fit", data, "--target", "RMSD", "--out", path, "--json", *QUICK))
    table = np.loadtxt(data, delimiter=",", skiprows=1)
    train, test = (RowChoice(0.2, 0, held_out).mask(0, len(table)) for held_out in (False, True))
    model = RFLAFRegressor(5, directions="random", random_state=0).fit(table[train, 1:], table[train, 0])
    assert said["metrics"]["r2"] == pytest.approx(model.score(table[test, 1:], table[test, 0]), rel=1e-9)


@pytest.mark.slow
@pytest.mark.realdata
def test_the_score_of_adult_is_that_of_python(tmp_path, capsys):
    path, small = tmp_path / "m.rflaf", tmp_path / "adult.data"
    small.write_text("\n".join(real("adult", "adult.data").read_text().splitlines()[:6000]))
    said = json.loads(output(capsys, "fit", small, "--target", "14", "--out", path, "--json", *QUICK))
    assert said["classes"] == ["<=50K", ">50K"]
    frame = pd.read_csv(small, header=None, skipinitialspace=True, na_values="?")
    y = frame.pop(14).to_numpy(str)
    train, test = (RowChoice(0.2, 0, held_out).mask(0, len(y)) for held_out in (False, True))
    frame.columns = frame.columns.map(str)
    encoding = make_encoding(summarise(frame.iloc[train]))
    rows = [encoding.transform(frame.iloc[half]) for half in (train, test)]
    X, X_test = (indicators(half, encoding.level_counts) for half in rows)
    model = RFLAFClassifier(5, directions="random", random_state=0).fit(X, y[train])
    assert said["metrics"]["accuracy"] == model.score(X_test, y[test])


def test_parquet_is_read_and_written(folder, tmp_path, capsys):
    frame = pd.read_csv(folder / "houses.csv", na_values="?")
    frame.assign(built=pd.to_datetime(frame["built"])).to_parquet(tmp_path / "houses.parquet")
    arguments = ["--target", "price", "--json", *QUICK]
    here = output(capsys, "fit", tmp_path / "houses.parquet", "--out", tmp_path / "a", *arguments)
    there = output(capsys, "fit", folder / "houses.csv", "--out", tmp_path / "b", *arguments)
    assert json.loads(here)["metrics"] == pytest.approx(json.loads(there)["metrics"], rel=1e-6)
    output(capsys, "predict", tmp_path / "a", tmp_path / "houses.parquet", "--out", tmp_path / "p.parquet")
    assert parquet.read_table(tmp_path / "p.parquet").num_rows == 150


# explain


@pytest.mark.parametrize("name", ["houses", "dear"])
def test_explain_writes_reasons_that_sum_to_the_predictions(folder, tmp_path, capsys, name):
    out, model = tmp_path / "reasons.csv", rflaf.load(folder / f"{name}.rflaf")
    told = output(capsys, "explain", folder / f"{name}.rflaf", folder / "new.csv", "--out", out)
    assert told.startswith("30 lines of reasons: ")
    reasons, new = pd.read_csv(out), pd.read_csv(folder / "new.csv")
    assert list(reasons) == ["(row)", *model.feature_names_in_, "(base)", "(sum)"]
    assert reasons["(row)"].tolist() == list(range(1, 31))
    np.testing.assert_allclose(reasons.drop(columns=["(row)", "(sum)"]).sum(axis=1), reasons["(sum)"], atol=1e-9)
    np.testing.assert_allclose(reasons["(sum)"], model(new), atol=1e-9)


def test_explain_prints_rows_and_refuses_a_bare_model(folder, tmp_path, capsys):
    lines = output(capsys, "explain", folder / "houses.rflaf", folder / "new.csv", "--json").splitlines()
    assert len(lines) == 30
    assert {"(row)", "area", "(base)", "(sum)"} < set(json.loads(lines[0]))
    X = np.random.default_rng(0).standard_normal((30, 2))
    rflaf.save(RFLAFRegressor(3, **CONVEX).fit(X, X[:, 0]), tmp_path / "bare.rflaf")
    told = refusal(capsys, "explain", tmp_path / "bare.rflaf", folder / "new.csv")
    assert "the model must know the columns of its table" in told
