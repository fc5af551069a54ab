"""The benchmark that judges defaults: ranks and summaries on hand-made numbers, splits, records, failures."""

from __future__ import annotations

import csv
import importlib
import json
import math
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.model_selection import train_test_split

sys.path.append(str(Path(__file__).parent.parent / "benchmarks"))
breadth, data, models, report, summary = map(
    importlib.import_module, ("breadth", "breadth_data", "breadth_models", "breadth_report", "breadth_summary")
)


def record(method, loss, name="one", kind="tables", seed=0, rows=200, **others):
    """A record of a regression, done unless `state` says otherwise."""
    about = {"kind": kind, "name": name, "task": "regression", "half": "choose", "rows": rows, "columns": 3}
    measure = data.PROTOCOLS[kind].measure
    ran = {"state": "done", "losses": {measure: loss}, "fit_seconds": 1.0, "predict_microseconds": 2.0}
    contestant = "ours" if method.startswith("rflaf") else method
    return {**about, "seed": seed, "method": method, "contestant": contestant, **ran, **others}


def compared(*records):
    return summary.comparisons(records)[0]


# Ranks, wins and ratios


def test_equal_losses_share_the_mean_of_their_places():
    assert summary.ranks(np.array([[3.0, 1.0, 1.0, 2.0]])).tolist() == [[4.0, 1.5, 1.5, 3.0]]


def test_failures_share_the_last_places():
    assert summary.ranks(np.array([[math.inf, 1.0, math.inf]])).tolist() == [[2.5, 1.0, 2.5]]


@settings(max_examples=30)
@given(
    arrays(float, array_shapes(min_dims=2, max_dims=2, max_side=6), elements=st.sampled_from([0.0, 1.0, 2.0, math.inf]))
)
def test_ranks_of_a_set_have_the_sum_of_all_places(losses):
    n_methods = losses.shape[1]
    assert (summary.ranks(losses).sum(axis=1) == n_methods * (n_methods + 1) / 2).all()


def test_equal_best_losses_are_wins_of_all_and_failures_of_none():
    losses = np.array([[1.0, 1.0, 2.0], [3.0, 2.0, math.inf], [math.inf, math.inf, math.inf]])
    assert summary.wins(losses).tolist() == [1, 2, 0]


def test_ratios_count_a_failure_as_the_worst_and_a_vanishing_loss_as_a_thousandth_of_the_constant():
    losses, constant = np.array([[1.0, 2.0, math.inf], [0.0, 4.0, math.inf]]), np.array([3.0, 2.0])
    found = summary.ratios(losses, losses.min(axis=1), constant)
    np.testing.assert_allclose(found, [[1.0, 2.0, 3.0], [1.0, 2000.0, 2000.0]])


def test_standings_of_two_sets_by_hand():
    records = [
        *(record("constant", 4.0, name) for name in ("one", "two")),
        *(record("ridge", loss, name) for name, loss in (("one", 2.0), ("two", 5.0))),
        *(record("rflaf-3", loss, name, fit_seconds=3.0) for name, loss in (("one", 1.0), ("two", 6.0))),
        record("catboost", 2.0),
        record("catboost", 0.0, "two", state="failed", message="no"),
    ]
    ours, ridge, catboost = summary.standings(compared(*records), ["catboost", "rflaf-3", "ridge"])
    assert (ours.method, ours.rank, ours.wins, ours.failures, ours.fit_seconds) == ("rflaf-3", 1.5, 1, 0, 3.0)
    assert (ours.relative, ours.worst, ours.worst_to_simple) == (pytest.approx(1.1), 1.2, 1.5)
    assert (ridge.method, ridge.rank, ridge.wins, ridge.worst, ridge.worst_to_simple) == ("ridge", 1.75, 1, 2.0, 1.25)
    assert (catboost.rank, catboost.wins, catboost.failures, catboost.worst) == (2.75, 0, 1, 2.0)


# From records to sets


@pytest.mark.parametrize(("kind", "average"), [("pmlb", 2.0), ("tables", 4.0)])
def test_splits_are_averaged_by_the_protocol_of_their_kind(kind, average):
    (item,) = compared(*(record("constant", loss, kind=kind, seed=seed) for seed, loss in enumerate([1.0, 2.0, 9.0])))
    assert (item.outcomes["constant"].loss, item.splits) == (average, 3)


def test_a_failure_on_one_split_is_a_failure_on_the_set():
    runs = [record("ridge", 1.0), record("ridge", 0.0, seed=1, state="failed", message="ValueError: a gap")]
    (item,) = compared(record("constant", 1.0), record("constant", 1.0, seed=1), *runs)
    assert item.outcomes["ridge"].loss == math.inf
    assert "- tables/one, ridge: seed 1: ValueError: a gap" in report.markdown([item], [])


def test_a_set_that_some_method_has_not_finished_is_named_and_not_counted():
    records = [record("constant", 1.0, name, seed=seed) for name in ("one", "two") for seed in (0, 1)]
    records += [record("ridge", 1.0), record("ridge", 1.0, seed=1), record("ridge", 1.0, "two")]
    found, unfinished = summary.comparisons(records)
    assert ([item.set for item in found], unfinished) == (["tables/one"], ["tables/two"])
    assert "Not finished, not counted above: tables/two" in report.markdown(found, unfinished)


def test_a_method_that_takes_some_sets_is_ranked_on_those_alone():
    records = [record(method, 1.0, name) for name in ("one", "two") for method in ("constant", "ridge")]
    records += [record("gaussian-process", 0.5), record("gaussian-process", 0, "two", state="left out", message="many")]
    found = summary.split_by_part("all", compared(*records))
    assert {name: (len(sets), methods) for name, (sets, methods) in found.items()} == {
        "all": (2, ["ridge"]),
        "all: sets that gaussian-process takes": (1, ["ridge", "gaussian-process"]),
    }


# Data sets and splits


def test_names_alternate_between_the_halves_in_sorted_order():
    assert data.halves(["c", "a", "d", "b"]) == {"a": "choose", "b": "report", "c": "choose", "d": "report"}


def test_scikit_learns_sets_keep_their_halves_whether_california_is_here_or_not(monkeypatch):
    here = {}
    for present in (True, False):
        monkeypatch.setattr(data, "_on_disk", lambda name, present=present: present or name != "california")
        here[present] = {problem.name: problem.half for problem in data.found(["sklearn"])}
    assert {**here[False], "california": "report"} == here[True]


def test_sets_that_share_their_rows_are_in_one_half():
    table = problem_of("tables", "regression", "reg-cpu_act", "report")
    problem = problem_of("pmlb", "regression", "197_cpu_act", "choose")
    assert [item.half for item in data.together([problem, table])] == ["choose", "choose"]
    assert [item.half for item in data.together([table])] == ["report"]


def test_without_a_folder_of_data_nothing_is_made_up(monkeypatch):
    monkeypatch.delenv("RFLAF_DATA_DIR", raising=False)
    assert data.found(["pmlb", "tables", "paper"]) == []


@pytest.mark.parametrize("n_rows", [40, 10_001])
def test_the_split_of_srbench_is_that_of_its_seeded_global_generator(n_rows):
    X = np.arange(2.0 * n_rows).reshape(n_rows, 2)
    y = X[:, 0] ** 2
    np.random.seed(860)  # noqa: NPY002 - the protocol
    rows, test, target, test_target = train_test_split(X, y, train_size=0.75, test_size=0.25, random_state=860)
    if n_rows > 10_000:
        drawn = np.random.choice(np.arange(len(rows)), size=10_000)  # noqa: NPY002 - the protocol
        rows, target = rows[drawn], target[drawn]
    split = data.srbench_split((X, y), "regression", 860)
    np.testing.assert_allclose(split.X_train, (rows - rows.mean(axis=0)) / rows.std(axis=0), atol=1e-12)
    np.testing.assert_allclose(split.X_test, (test - rows.mean(axis=0)) / rows.std(axis=0), atol=1e-12)
    np.testing.assert_allclose(split.y_train, (target - target.mean()) / target.std(), atol=1e-12)
    np.testing.assert_allclose(split.y_test, (test_target - target.mean()) / target.std(), atol=1e-12)


# Losses and contestants


def problem_of(kind, task, name="a", half="choose"):
    return data.Problem(kind, name, task, half, lambda: None)


@pytest.mark.parametrize(("kind", "loss"), [("pmlb", 5 / 4), ("tables", math.sqrt(5)), ("paper", 5)])
def test_regression_losses_of_a_constant_by_hand(kind, loss):
    X, y_train, y_test = np.zeros((2, 1)), np.array([1.0, 3.0]), np.array([1.0, 5.0])
    split = data.Split(X, X, y_train, y_test)  # errors 1 and 3: mean square 5, the variance of y_test is 4
    model = DummyRegressor().fit(X, y_train)
    assert list(breadth.losses(problem_of(kind, "regression"), model, split).values()) == [pytest.approx(loss)]


def test_class_losses_of_a_constant_by_hand_even_where_a_class_was_never_seen():
    X, y = np.zeros((4, 1)), np.array([0, 0, 0, 1])
    model = DummyClassifier().fit(X, y)
    found = breadth.losses(problem_of("tables", "binary"), model, data.Split(X, X, y, y))
    entropy = -0.75 * math.log(0.75) - 0.25 * math.log(0.25)
    assert found == {"1 - AUC": 0.5, "log-loss": pytest.approx(entropy)}
    unseen = breadth.losses(problem_of("tables", "multi-class"), model, data.Split(X, X, y, np.array([0, 0, 1, 2])))
    assert unseen == {"log-loss": pytest.approx((2 * -math.log(0.75) - math.log(0.25) + 15 * math.log(10)) / 4)}


def test_a_gaussian_process_takes_regressions_of_up_to_1500_rows():
    assert models.why_not("gaussian-process", "regression", 1500) is None
    assert models.why_not("gaussian-process", "regression", 1501) == "more than 1500 training rows"
    assert models.why_not("gaussian-process", "binary", 10) == "regression only"
    assert models.why_not("ours", "binary", 10**6) is None


def small(contestant, task, X):
    """A contestant with five trees, if it has any."""
    model = models.makers(3)[contestant](task, X, 0)
    if contestant.startswith(("lightgbm", "catboost", "extra")):
        model[-1].set_params(n_estimators=5)
    return model


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # a scale without effect runs to its bound
@pytest.mark.parametrize("contestant", ["constant", *models.CONTESTANTS[1:]])
def test_every_rival_takes_text_gaps_and_words_it_never_saw(contestant):
    if models.missing_libraries([contestant]):
        pytest.skip(f"{contestant} is not installed")
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {"an [odd] name": rng.standard_normal(60), "word": rng.choice(["x", "y"], 60), "flag": rng.random(60) < 0.5}
    )
    y = X.iloc[:, 0] + (X["word"] == "x")
    X.iloc[3, 0], X.iloc[4, 1] = np.nan, None
    new = pd.DataFrame({"an [odd] name": [0.0, np.nan, 1.0], "word": ["z", "x", None], "flag": [True, False, True]})
    predicted = small(contestant, "regression", X).fit(X, y.to_numpy()).predict(new)
    assert np.isfinite(predicted).all()
    if contestant != "gaussian-process":
        p = small(contestant, "binary", X).fit(X, (y > 0).to_numpy().astype(int)).predict_proba(new)
        np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-6)


# Records and the command line


def test_a_damaged_last_line_is_passed_over_and_cut_before_more_is_written(tmp_path):
    path = tmp_path / "records.jsonl"
    path.write_text('{"a": 1}\n{"a": 2}\n{"a": ')
    assert breadth.read_records(path) == [{"a": 1}, {"a": 2}]
    breadth.cut_damaged_line(path)
    assert path.read_text() == '{"a": 1}\n{"a": 2}\n'


def test_a_damaged_line_in_the_middle_is_refused_by_its_number(tmp_path):
    path = tmp_path / "records.jsonl"
    path.write_text('{"a": 1}\n{"a"\n{"a": 3}\n')
    with pytest.raises(SystemExit, match=r"records.jsonl, line 2: not a record .* remove the line"):
        breadth.read_records(path)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Three problems of PMLB's form in a folder of data; the last has gaps, which a linear model refuses."""
    rng = np.random.default_rng(0)
    (tmp_path / "pmlb").mkdir()
    for name in ("a", "b", "gaps"):
        rows = pd.DataFrame({"x": rng.standard_normal(40), "z": rng.standard_normal(40)})
        rows["target"] = rows.x + 0.1 * rows.z**2
        rows.loc[:: 3 if name == "gaps" else 99, "z"] = np.nan if name == "gaps" else 0.0
        rows.to_csv(tmp_path / "pmlb" / f"{name}.tsv.gz", sep="\t", index=False)
    monkeypatch.setenv("RFLAF_DATA_DIR", str(tmp_path))
    monkeypatch.setattr(data, "FOLDER", tmp_path)
    return tmp_path


def test_a_second_call_runs_what_is_missing_only(folder, capsys):
    command = ["--kinds", "pmlb", "--methods", "ridge", "--out", str(folder / "found.jsonl")]
    breadth.main([*command, "--sets", "report", "--seeds", "1"])
    first = capsys.readouterr()
    before = (folder / "found.jsonl").read_text()
    assert first.out.startswith("report: pmlb/b\n")
    assert "[2/2, 0 min left] pmlb/b, seed 23654, ridge: 1 - r2 0." in first.err
    breadth.main([*command, "--sets", "report", "--seeds", "1"])
    second = capsys.readouterr()
    assert (second.out, second.err, (folder / "found.jsonl").read_text()) == (first.out, "", before)
    breadth.main([*command, "--sets", "report", "--seeds", "3"])
    assert (folder / "found.jsonl").read_text().startswith(before)
    assert len(breadth.read_records(folder / "found.jsonl")) == 6


def test_a_failure_is_recorded_with_its_message_and_ranks_last(folder, capsys):
    out = folder / "found.jsonl"
    breadth.main(f"--kinds pmlb --only gaps --seeds 1 --methods ridge extra-trees --out {out}".split())
    failed = [json.loads(line) for line in out.read_text().splitlines()][1]
    assert (failed["method"], failed["state"]) == ("ridge", "failed")
    assert failed["message"].startswith("ValueError: Input X contains NaN")
    shown = capsys.readouterr().out
    assert "| extra-trees | 1.00 | 1 | 1.000 | 1.000 |" in shown
    assert "- pmlb/gaps, ridge: seed 23654: ValueError: Input X contains NaN" in shown
    with out.with_suffix(".csv").open() as stream:
        ranks = {line["method"]: line["rank"] for line in csv.DictReader(stream)}
    assert ranks == {"constant": "", "ridge": "2.0", "extra-trees": "1.0"}
    assert out.with_suffix(".md").read_text() in shown


def test_the_summary_needs_the_records_alone(folder, capsys, monkeypatch):
    out = folder / "found.jsonl"
    breadth.main(f"--kinds pmlb --sets all --only a --seeds 1 --methods ridge --out {out}".split())
    first = capsys.readouterr().out.split("\n\n", 1)[1]
    monkeypatch.delenv("RFLAF_DATA_DIR")
    breadth.main(f"--kinds pmlb --sets all --seeds 1 --methods ridge --summary --out {out}".split())
    assert capsys.readouterr().out == first


def test_a_name_outside_the_half_is_refused(folder):
    with pytest.raises(SystemExit, match=r"--only must name sets of --kinds and --sets choose on this machine.*: b$"):
        breadth.main(f"--kinds pmlb --sets choose --only b --methods ridge --out {folder / 'found.jsonl'}".split())
