"""Experiments as data, the runner and its records, tables and figures, and ``rflaf reproduce``."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from time import monotonic, sleep

import numpy as np
import pytest

from rflaf import datasets
from rflaf.cli import app as cli
from rflaf.errors import InvalidParameterError, MissingExtraError
from rflaf.functions.densities import Directions
from rflaf.study import command, experiments, figures, protocols, regimes, result_tables, runner
from rflaf.study.trials import POOLED, SCHEMES, STUDY, Record, Score, Trial
from rflaf.training.solvers.leverage import Leverage

TINY = """
title = "A made-up figure"
metric = "loss"

[quick]
data = ["protein"]
seeds = [0, 1]
widths = [5, 10]
pool = 30

[full]
data = ["protein"]
seeds = [0, 1, 2]
widths = [5, 10]
pool = 30

[[arms]]
protocol = ["paper", "converged"]
scheme = ["plain", "leverage"]
basis = ["rbf"]
n_centres = [9]
"""


@pytest.fixture(scope="module")
def made_up_data(tmp_path_factory):
    """A protein table of 300 made-up rows and an adult table of 300 made-up people, where the loader looks."""
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 9))
    y = 7 + 3 * np.tanh(X[:, 0]) + X[:, 1] ** 2
    rows = "\n".join(",".join(f"{value:.5f}" for value in row) for row in np.column_stack([y, X]))
    (folder / "protein").mkdir()
    (folder / "protein" / "CASP.csv").write_text("RMSD," + ",".join(f"F{i}" for i in range(1, 10)) + "\n" + rows + "\n")
    people = [
        f"{20 + i % 50}, Private, {1000 * i}, HS-grad, 9, Divorced, Sales, Husband, White, "
        f"{'Male' if i % 3 else 'Female'}, 0, 0, 40, X, {'>50K' if (i % 50) + 10 * (i % 3) > 30 else '<=50K'}"
        for i in range(300)
    ]
    (folder / "adult").mkdir()
    (folder / "adult" / "adult.data").write_text("\n".join(people) + "\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RFLAF_DATA_DIR", str(folder))
        protocols.load_for_paper.cache_clear()
        yield folder
    protocols.load_for_paper.cache_clear()


@pytest.fixture(scope="module")
def tiny():
    return experiments.parse("tiny", TINY)


@pytest.fixture(scope="module")
def tiny_records(made_up_data, tiny, tmp_path_factory):
    """All trials of the tiny experiment, run here."""
    path = tmp_path_factory.mktemp("records") / "records.jsonl"
    return runner.run(tiny.trials("quick"), path, n_jobs=1), path


def a_record(**changes):
    trial = Trial("protein", "paper", "rbf", 17, "plain", 0, 0, 100)
    settings = {key: changes.pop(key) for key in list(changes) if key in Trial.__slots__}
    values = {
        "trial": replace(trial, **settings), "score": Score(0.29, None, 0.28, None), "diverged": False,
        "components": 100, "fit_seconds": 1.0, "pool_seconds": 0.0, "predict_seconds": 0.01, "spread": 0.0,
        "when": "now", "environment": {"study": STUDY},
    }  # fmt: skip
    return Record(**{**values, **changes})


# --- experiments ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", experiments.names())
@pytest.mark.parametrize("effort", experiments.EFFORTS)
def test_every_experiment_unfolds_into_trials_that_can_be_run(name, effort):
    trials = experiments.read(name).trials(effort)
    assert trials
    assert len(trials) == len(set(trials))
    for trial in trials:
        assert trial.data in (regimes.NAMES if trial.protocol == "regimes" else datasets.NAMES)
        assert trial.scheme in SCHEMES[trial.protocol]
        assert (trial.pool > 0) == (trial.scheme in POOLED or trial.protocol == "regimes")


def test_the_figures_hold_what_the_paper_shows():
    widths = {30, 50, 100, 300, 500, 1000}
    for name, grids in (("figure1", {("rbf", 17), ("bspline", 17), ("bspline-published", 17)}),
                        ("figure2", {("rbf", 17), ("rbf", 33), ("rbf", 65)})):  # fmt: skip
        trials = [trial for trial in experiments.read(name).trials("full") if trial.protocol == "paper"]
        assert {(trial.basis, trial.n_centres) for trial in trials} == grids
        assert {trial.width for trial in trials} == widths
        assert {trial.seed for trial in trials} == set(range(8))
        assert {trial.pool for trial in trials} == {0, 5000}
    for name, other in (("figure3", "figure1"), ("figure4", "figure2")):
        accuracy = experiments.read(name)
        assert accuracy.metric == "accuracy"
        assert set(accuracy.trials("full")) <= set(experiments.read(other).trials("full"))


def test_both_arms_of_a_protocol_have_the_same_cells(tiny):
    def cells(scheme):
        return [replace(t, scheme="", pool=0) for t in tiny.trials("full") if t.scheme == scheme]

    assert cells("plain") == cells("leverage")
    assert len(cells("plain")) == 2 * 3 * 2


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("title", "titel", "tiny.toml may hold the keys .*; got 'titel'. Is it misspelt?"),
        ("seeds", "seed", r"\[quick\] of tiny.toml may hold the keys .*; got 'seed'"),
        ("n_centres", "n_centers", r"\[\[arms\]\] of tiny.toml may hold the keys .*; got 'n_centers'"),
        ('metric = "loss"\n', "", "tiny.toml must hold the key 'metric'"),
        ('"loss"', '"error"', "metric of tiny.toml must be of 'loss', 'accuracy'; got 'error'"),
        ('["protein"]', '["protien"]', r"data in \[quick\] of tiny.toml must be of 'protein', .*; got 'protien'"),
        ('"leverage"]', '"greedy"]', "scheme in .* must be of 'plain', 'leverage', .*; got 'greedy'"),
        ('["rbf"]', '["fourier"]', "basis in .* got 'fourier'"),
        ("[5, 10]", "[5, 0]", "widths in .* must be whole numbers of at least 1; got 0"),
        ("[5, 10]", "10", "widths in .* must be a list; got 10"),
        ('basis = ["rbf"]\n', "", r"\[\[arms\]\] of tiny.toml needs basis and n_centres"),
        ("pool = 30", "pool = 'x", "tiny.toml must be valid TOML"),
        ("[quick]\n", "[quick.more]\n", r"\[quick\] of tiny.toml may hold the keys .*; got 'more'"),
        ('title = "A made-up figure"', 'title = "x"\nfull = 3', "valid TOML|must be a table"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_file_is_named(old, new, message):
    with pytest.raises(InvalidParameterError, match=message):
        experiments.parse("tiny", TINY.replace(old, new))


def test_an_effort_that_is_no_table_is_refused():
    text = TINY.replace("[full]", "[spare]")
    with pytest.raises(InvalidParameterError, match="got 'spare'"):
        experiments.parse("tiny", text)
    start = TINY.index("[full]")
    text = "full = 3\n" + TINY[:start] + TINY[TINY.index("[[arms]]") :]
    with pytest.raises(InvalidParameterError, match=r"\[full\] of tiny.toml must be a table; got 3"):
        experiments.parse("tiny", text)


def test_an_unknown_figure_is_refused_with_the_known_ones(tmp_path):
    for ask in (lambda: experiments.read("figure9"), lambda: command.reproduce(["figure9"], "quick", tmp_path / "out")):
        with pytest.raises(InvalidParameterError, match=r"must be one of .*'figure1', .*; got 'figure9'"):
            ask()
    assert not (tmp_path / "out").exists()
    with pytest.raises(InvalidParameterError, match="effort must be"):
        command.reproduce([], "half", tmp_path / "out")


# --- protocols -----------------------------------------------------------------------------------------------


def test_the_optimiser_is_the_authors_choice():
    trial = Trial("protein", "paper", "rbf", 17, "plain", 0, 0, 100)
    assert protocols.optimiser(trial, "regression") == "sgd"
    assert protocols.optimiser(replace(trial, basis="bspline"), "regression") == "sgd"
    assert protocols.optimiser(replace(trial, basis="bspline", width=5000), "regression") == "adam"
    assert protocols.optimiser(replace(trial, basis="bspline", n_centres=65), "regression") == "adam"
    assert protocols.optimiser(replace(trial, basis="bspline", n_centres=65), "classification") == "sgd"
    leverage = replace(trial, scheme="leverage")
    assert protocols.optimiser(leverage, "regression") == "adam"
    assert protocols.optimiser(leverage, "classification") == "sgd"
    assert protocols.optimiser(replace(leverage, width=1000), "classification") == "adam"
    assert protocols.optimiser(replace(leverage, basis="bspline"), "classification") == "adam"


def test_directions_are_nested():
    assert np.array_equal(protocols.directions(4, 30, 7)[:, :5], protocols.directions(4, 5, 7))


@pytest.mark.parametrize("data", ["protein", "adult"])
@pytest.mark.parametrize(
    ("protocol", "scheme"),
    [(p, s) for p, schemes in SCHEMES.items() for s in schemes if s != "refined" and p != "regimes"],
)
def test_every_protocol_gives_a_finite_score(made_up_data, small_pool, data, protocol, scheme):
    shared = protocol in ("paper", "converged")
    trial = Trial(data, protocol, "rbf" if shared else "", 9 if shared else 0, scheme, 20 * (scheme in POOLED), 0, 6)
    (record,) = protocols.run((trial,))
    assert record.trial == trial
    assert not record.diverged
    assert np.isfinite(record.score.loss)
    assert record.components <= 6
    if data == "adult":
        assert 0 <= record.score.accuracy <= 1
        assert record.score.accuracy > 0.6 or protocol == "paper"
        assert record.score.best_loss <= record.score.loss
    else:
        assert record.score.accuracy is None
        assert record.score.loss < 2 * np.var(datasets.load("protein").y_test) or protocol == "paper"


def test_lightgbm_is_a_reference_or_its_extra_is_named(made_up_data, monkeypatch):
    trial = Trial("protein", "reference", "", 0, "LightGBM", 0, 0, 5)
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with pytest.raises(MissingExtraError, match=r"rflaf\[study\]"):
        next(protocols.run((trial,)))


def test_the_refined_model_is_the_default_estimator():
    model = protocols.make_estimator(Trial("protein", "compact", "", 0, "refined", 0, 3, 30), "regression")
    assert model.get_params()["n_components"] == 30
    assert model.directions == "refined"
    assert model.random_state == 3


@pytest.mark.slow
def test_schemes_of_one_pool_run_together_and_fit_it_once(made_up_data):
    trials = [
        Trial("protein", protocol, "rbf", 9, scheme, 30, 0, width)
        for protocol in ("paper", "converged")
        for scheme in POOLED
        for width in (5, 10)
    ]
    for protocol in ("paper", "converged"):
        group = tuple(trial for trial in trials if trial.protocol == protocol)
        assert len({trial.group for trial in group}) == 1
        records = list(protocols.run(group))
        assert [record.trial for record in records] == sorted(group)
        assert len({record.pool_seconds for record in records}) == 1
        assert len({record.spread for record in records}) == 1
        assert records[0].spread > 1


def test_a_placebo_differs_from_leverage_in_nothing_but_the_scores():
    trial = Trial("protein", "paper", "rbf", 17, "leverage", 50, 0, 8)
    even = np.full(50, 1 / 50)
    for scheme in ("leverage", "placebo"):
        kept, importance = protocols.draw_as_published(replace(trial, scheme=scheme), even)
        assert np.array_equal(kept, np.random.default_rng(0).choice(50, size=8, p=even))
        assert importance == pytest.approx(np.sqrt(50))
    uneven = np.arange(1, 51) / np.arange(1, 51).sum()
    kept, importance = protocols.draw_as_published(trial, uneven)
    assert importance == pytest.approx(np.sqrt(1 / uneven[kept]))
    assert protocols.draw_as_published(replace(trial, scheme="placebo"), uneven)[1] == pytest.approx(np.sqrt(50))


def test_no_direction_is_drawn_twice_without_replacement():
    trial = Trial("protein", "paper", "rbf", 17, "without_replacement", 30, 0, 25)
    q = np.arange(1, 31) / np.arange(1, 31).sum()
    kept, importance = protocols.draw_as_published(trial, q)
    assert np.unique(kept).size == 25
    pool = Directions(np.eye(30), np.zeros(30), np.ones(30), 30)
    drawn = protocols.draw_from(pool, Leverage(q, 0.1), trial)
    assert drawn.n_components == 25
    assert np.unique(drawn.W.argmax(axis=0)).size == 25
    assert importance.min() >= np.sqrt(25)


@pytest.mark.slow
def test_all_schemes_search_from_the_same_starts(made_up_data, monkeypatch):
    asked = []
    learn = protocols.learn_activation

    def spy(fit, directions, start=None):
        asked.append((directions.n_components, start, fit.rng.bit_generator.state["state"]["state"]))
        return learn(fit, directions, start)

    monkeypatch.setattr(protocols, "learn_activation", spy)
    for scheme in ("plain", *POOLED):
        list(protocols.run((Trial("protein", "converged", "rbf", 9, scheme, 30 * (scheme != "plain"), 0, 6),)))
    assert all(start is None for _, start, _ in asked)
    of_width = [state for n_components, _, state in asked if n_components <= 6]
    assert len(of_width) == 4
    assert len(set(of_width)) == 1


def test_the_converged_arms_beat_the_papers_on_the_same_directions(tiny_records):
    records, _ = tiny_records
    by_protocol = {}
    for record in records:
        by_protocol.setdefault(record.trial.protocol, []).append(record.score.loss)
    assert np.mean(by_protocol["converged"]) < np.mean(by_protocol["paper"])


# --- the runner ----------------------------------------------------------------------------------------------


def without_times(record):
    return replace(record, fit_seconds=0.0, pool_seconds=0.0, predict_seconds=0.0, when="")


def test_a_record_survives_json(tiny_records):
    records, path = tiny_records
    again, complaint = runner.read_records(path)
    assert complaint == ""
    assert sorted(again, key=lambda record: record.trial) == records
    assert {"rflaf", "numpy", "python", "processors"} <= set(records[0].environment)


@pytest.mark.slow
def test_processes_give_the_same_records(tiny_records, tiny, tmp_path):
    records, _ = tiny_records
    seen = []
    trials = tiny.trials("quick")
    again = runner.run(trials, tmp_path / "r.jsonl", 2, lambda done, total, line: seen.append((done, total)))
    assert [without_times(record) for record in again] == [without_times(record) for record in records]
    assert seen[0] == (0, len(trials))
    assert seen[-1] == (len(trials), len(trials))
    assert len((tmp_path / "r.jsonl").read_text().splitlines()) == len(trials)


@pytest.mark.slow
def test_a_run_that_was_stopped_goes_on_where_it_was(made_up_data, tiny, tiny_records, tmp_path):
    path, trials = tmp_path / "records.jsonl", tiny.trials("quick")

    def stop_after_three(done, total, line):
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        runner.run(trials, path, 1, stop_after_three)
    first = path.read_text().splitlines()
    assert len(first) == 3
    lines = []
    records = runner.run(trials, path, 1, lambda done, total, line: lines.append((done, line)))
    assert lines[0] == (3, f"3 of {len(trials)} trials are in records.jsonl already")
    assert path.read_text().splitlines()[:3] == first
    assert [without_times(record) for record in records] == [without_times(record) for record in tiny_records[0]]


@pytest.mark.slow
def test_records_of_an_earlier_study_are_kept_but_not_resumed_from(made_up_data, tiny_records, tmp_path):
    path, first = tmp_path / "records.jsonl", tiny_records[0][0]
    runner.append(replace(first, environment={**first.environment, "study": "1"}), path)
    lines = []
    runner.run([first.trial], path, 1, lambda done, total, line: lines.append(line))
    assert lines[0] == "0 of 1 trials are in records.jsonl already"
    assert len(path.read_text().splitlines()) == 2


def test_a_records_file_cut_in_mid_line_keeps_the_rest(made_up_data, tiny, tiny_records, tmp_path):
    whole = tiny_records[1].read_text()
    path = tmp_path / "records.jsonl"
    path.write_text(whole[: whole.rindex("{") - 40])  # within the last line
    n_whole = len(whole.splitlines())
    lines = []
    records = runner.run(tiny.trials("quick"), path, 1, lambda done, total, line: lines.append(line))
    assert lines[0] == f"records.jsonl: line {n_whole} cut or no record, dropped; {n_whole - 1} kept"
    assert lines[1] == f"{n_whole - 1} of {n_whole} trials are in records.jsonl already"
    assert len(records) == n_whole
    assert all(json.loads(line) for line in path.read_text().splitlines())


def test_lines_that_are_no_records_are_dropped(tmp_path):
    path = tmp_path / "records.jsonl"
    runner.append(a_record(), path)
    with path.open("a") as file:
        file.write('{"trial": {}}\n[1, 2]\n\n')
    runner.append(a_record(seed=1), path)
    records, complaint = runner.read_records(path)
    assert [record.trial.seed for record in records] == [0, 1]
    assert complaint == "records.jsonl: lines 2, 3, 4 cut or no record, dropped; 2 kept"
    assert runner.read_records(path) == (records, "")


@pytest.mark.slow
def test_a_worker_that_dies_leaves_its_records(made_up_data, tiny, tmp_path):
    def kill(done, total, line):
        if done == 2:
            for worker in multiprocessing.active_children():
                os.kill(worker.pid, signal.SIGKILL)

    path = tmp_path / "records.jsonl"
    with pytest.raises(OSError, match=r"a worker process died.*Run the same command again"):
        runner.run(experiments.parse("tiny", TINY).trials("full"), path, 2, kill)
    records, complaint = runner.read_records(path)
    assert len(records) >= 2
    assert complaint == ""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc for the workers")
def test_a_run_that_is_killed_leaves_its_records_and_no_processes(made_up_data, tmp_path):
    path = tmp_path / "records.jsonl"
    script = tmp_path / "run.py"
    script.write_text(
        "import sys\nfrom pathlib import Path\nfrom rflaf.study import experiments, runner\n"
        "if __name__ == '__main__':\n"
        f"    trials = experiments.parse('tiny', {TINY.replace('[0, 1, 2]', str(list(range(200))))!r}).trials('full')\n"
        "    runner.run(trials, Path(sys.argv[1]), 2)\n"
    )
    process = subprocess.Popen([sys.executable, str(script), str(path)])
    wait_until(lambda: path.exists() and path.read_text().count("\n") >= 2)
    workers = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    process.kill()
    process.wait()
    assert len(workers) >= 2
    wait_until(lambda: not any(is_running(worker) for worker in workers))
    records, _ = runner.read_records(path)
    assert len(records) >= 2


def wait_until(happened, seconds=120):
    end = monotonic() + seconds
    while not happened():
        assert monotonic() < end
        sleep(0.1)


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_diverged_trial_is_described_as_such():
    record = a_record(score=Score(None, None, None, None), diverged=True)
    assert runner.describe(record) == "protein paper rbf 17 plain S=100 seed 0: diverged"
    runner.silent(0, 1, "")


# --- tables and figures --------------------------------------------------------------------------------------


def test_a_cell_stands_beside_the_authors():
    records = [a_record(seed=seed, score=Score(0.29 + 0.01 * seed, None, 0.2, None)) for seed in range(3)]
    (cell,) = result_tables.summarise(records, "loss", {"protein": 1000})
    assert np.isclose(cell.mean, 0.30)
    assert np.isclose(cell.sd, 0.01)
    assert (cell.authors_mean, cell.authors_sd, cell.authors_seeds) == (0.2873, 0.0105, 8)
    assert np.isclose(cell.difference, (0.30 - 0.2873) / 0.0105)
    assert cell.agrees  # 5 % of .2873 is .0144
    assert np.isclose(cell.predict_microseconds, 10.0)
    assert np.isclose(cell.high - cell.mean, 1.8856 * 0.01 / 3**0.5, rtol=1e-4)
    assert not replace(cell, mean=0.32).agrees
    assert not cell.no_worse
    assert replace(cell, mean=0.28).no_worse
    assert replace(cell, metric="accuracy").no_worse


def test_diverged_seeds_are_counted_and_left_out_of_the_mean():
    records = [a_record(), a_record(seed=1, score=Score(None, None, None, None), diverged=True)]
    (cell,) = result_tables.summarise(records, "loss", {"protein": 1})
    assert (cell.mean, cell.seeds, cell.diverged, cell.sd, cell.low) == (0.29, 2, 1, 0.0, 0.29)
    (lost,) = result_tables.summarise(records[1:], "loss", {"protein": 1})
    assert np.isnan(lost.mean)


def test_accuracy_is_of_classes_only():
    records = [a_record(), a_record(data="adult", score=Score(0.4, 0.8, 0.4, 0.8))]
    (cell,) = result_tables.summarise(records, "accuracy", {"protein": 1, "adult": 1})
    assert (cell.data, cell.mean, cell.authors_mean) == ("adult", 0.8, pytest.approx(0.776, abs=0.01))


def test_a_cell_the_authors_have_not_has_no_difference():
    (cell,) = result_tables.summarise([a_record(n_centres=9)], "loss", {"protein": 1})
    assert cell.difference is None
    assert cell.agrees is None
    assert cell.no_worse is None
    assert "0.2900 ± 0.0000" in result_tables.to_markdown([cell])


def test_the_published_spline_stands_beside_the_authors_spline_and_so_does_the_right_one():
    for basis in ("bspline", "bspline-published"):
        (cell,) = result_tables.summarise([a_record(basis=basis)], "loss", {"protein": 1})
        assert cell.authors_mean == 0.3060


@pytest.mark.slow
def test_reproduce_writes_records_tables_and_figures(made_up_data, tiny_records, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(experiments, "names", lambda: ["tiny"])
    monkeypatch.setattr(experiments, "read", lambda name: experiments.parse(name, TINY))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "records.jsonl").write_text(tiny_records[1].read_text())
    assert cli.run(["reproduce", "tiny", "--quick", "--jobs", "1", "--out", str(tmp_path / "out")]) == 0
    printed = capsys.readouterr().out.split()
    names = [
        "records.jsonl", "records.jsonl.gz", "records.json", "tiny.csv", "tiny-differences.csv", "tiny.md",
        "tiny.png", "tiny.svg", "tiny.pdf",
    ]  # fmt: skip
    assert printed == [str(tmp_path / "out" / name) for name in names]
    assert (tmp_path / "out" / "tiny.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "out" / "tiny.pdf").read_bytes().startswith(b"%PDF")
    assert "<svg" in (tmp_path / "out" / "tiny.svg").read_text()
    table = (tmp_path / "out" / "tiny.csv").read_text().splitlines()
    assert len(table) == 1 + 2 * 2 * 2
    differences = (tmp_path / "out" / "tiny-differences.csv").read_text().splitlines()
    assert len(differences) == 1 + 2 * 2
    page = (tmp_path / "out" / "tiny.md").read_text()
    assert page.startswith("# A made-up figure\n\n## Paired differences, 95 % intervals\n")
    assert "| leverage | plain |" in page


@pytest.mark.slow
def test_figures_draw_every_kind_of_line(tmp_path, tiny):
    records = [
        a_record(
            protocol=protocol, scheme=scheme, basis="rbf" if grid else "", n_centres=17 * grid, width=width, seed=seed
        )
        for protocol, schemes in SCHEMES.items()
        if protocol != "regimes"
        for scheme in schemes
        for width in (30, 100)
        for seed in (0, 1)
        for grid in [protocol in ("paper", "converged")]
    ]
    cells = result_tables.summarise(records, "loss", {"protein": 1})
    paths = figures.draw(tiny, cells, tmp_path)
    text = paths[1].read_text()
    assert all(path.stat().st_size > 1000 for path in paths)
    for label in ("plain, paper", "leverage, converged", "plain, authors", "per component", "LightGBM, 100"):
        assert f"<!-- {label} -->" in text


def test_studies_run_beside_figures(tmp_path, monkeypatch):
    def study(effort, folder, progress):
        path = folder / f"{effort}.txt"
        path.write_text("done")
        return [path]

    monkeypatch.setitem(command.STUDIES, "mine", study)
    assert command.reproduce(["mine"], "quick", tmp_path / "out") == [tmp_path / "out" / "quick.txt"]


def test_without_names_what_runs_by_default_is_run(tmp_path, monkeypatch):
    chosen, studied = [], []
    monkeypatch.setattr(command, "run_experiments", lambda them, *rest: chosen.extend(e.name for e in them) or [])
    monkeypatch.setitem(command.STUDIES, "theory", lambda effort, *rest: studied.append(effort) or [])
    command.reproduce([], "quick", tmp_path)
    assert "figure1" in chosen
    assert "cifar10" not in chosen
    assert studied == ["quick"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["reproduce", "figure9"], "got 'figure9'. Leave it out to run the usual ones."),
        (["reproduce", "--jobs", "0"], "Invalid value for '--jobs'"),
    ],
)
def test_a_mistake_at_the_command_line_is_one_line(arguments, message, capsys, tmp_path):
    assert cli.run([*arguments, "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error


def test_data_that_is_not_there_is_one_line_at_the_command_line(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("RFLAF_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for scheme in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.setenv(scheme, "http://127.0.0.1:9")  # nobody listens there
    assert cli.run(["reproduce", "cifar10", "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert "the data set 'cifar10' is not on this computer" in error
    assert "Traceback" not in error
