"""SRBench by its protocol: splits, records that resume, and ranks by hand."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path

import numpy as np
import pytest
from commands import output, refusal

from rflaf.study import leaderboard, srbench
from rflaf.study.srbench import SEEDS, Run

RESULTS = Path(__file__).parent.parent.parent / "docs" / "results"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two problems as PMLB has them, the target not last."""
    folder = tmp_path_factory.mktemp("pmlb")
    rng = np.random.default_rng(0)
    for name, n_rows in (("plane", 60), ("wave", 80)):
        X = rng.standard_normal((n_rows, 2))
        y = X.sum(axis=1) if name == "plane" else np.sin(2 * X[:, 0])
        table = np.column_stack([X[:, 0], y, X[:, 1]])
        with gzip.open(folder / f"{name}.tsv.gz", "wt") as file:
            np.savetxt(file, table, delimiter="\t", header="a\ttarget\tb", comments="")
    return folder


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    path = tmp_path_factory.mktemp("published") / "published.csv"
    lines = [
        "algorithm,dataset,r2_median,size_median,train_s_median",
        "X,plane,2.0,3,9",
        "X,wave,-9,3,9",
        "Y,wave,-8,4,1",
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


def run_of(problem: str, seed: int, r2: float) -> Run:
    return Run(problem, seed, 5, r2, 10, 0.5, 100, 2)


def test_a_problem_is_read_with_its_target_wherever_it_stands(folder):
    X, y = srbench.problems_in(folder)["plane"]()
    np.testing.assert_allclose(X.sum(axis=1), y, atol=1e-12)


def test_ranks_first_places_and_medians_by_hand():
    published = {
        "a": {"X": (0.9, 5.0, 1.0), "Y": (0.8, 6.0, 2.0)},
        "b": {"X": (-3.0, 5.0, 1.0), "Y": (math.nan, 6.0, 2.0)},
        "c": {"X": (0.5, 5.0, 1.0)},
        "not run": {"X": (1.0, 5.0, 1.0)},
    }
    runs = [run_of("a", 1, 0.8999996)]
    runs += [run_of("b", 1, 0.1), run_of("b", 2, 0.3), run_of("c", 1, 0.6), run_of("no", 1, 1.0)]
    ours = leaderboard.medians_of(runs)
    assert ours["b"] == pytest.approx((0.2, 10.0, 0.5))
    one, x, y = leaderboard.standings(ours, published)
    assert (one.algorithm, one.rank, one.first, one.problems) == ("rflaf", pytest.approx(3.5 / 3), 3, 3)
    assert one.low <= one.rank <= one.high
    assert (one.size_rank, one.time_rank) == (pytest.approx(8 / 3), 1.0)
    assert (x.algorithm, x.rank, x.first, x.size_rank) == ("X", pytest.approx(5.5 / 3), 1, 1.0)
    assert (y.algorithm, y.rank, y.first, y.problems) == ("Y", 3.0, 0, 2)
    assert leaderboard.losses_table(ours, published).count("\n") == 1  # behind nowhere: a head alone


def test_all_problems_come_on_the_first_seed_before_any_on_the_second():
    problems = {"a": None, "b": None}
    done = [run_of("a", SEEDS[0], 1.0)]
    assert srbench.pending(problems, 5, 2, done) == [("b", SEEDS[0]), ("a", SEEDS[1]), ("b", SEEDS[1])]
    assert len(srbench.pending(problems, 7, 2, done)) == 4  # of another width nothing is done


@pytest.mark.slow
def test_the_command_resumes_and_writes_records_table_and_picture(folder, published, tmp_path, capsys):
    out = tmp_path / "records.jsonl"
    command = ["bench", "srbench", "--folder", folder, "--published", published, "-o", out, "--width", "3"]
    output(capsys, *command, "--seeds", "1")
    first = out.read_text()
    assert [run.problem for run in srbench.read_records(out)] == ["plane", "wave"]
    out.write_text(first + '{"problem": "plane", "se')  # killed while it wrote
    printed = output(capsys, *command, "--seeds", "2")
    assert out.read_text().startswith(first)
    assert len(srbench.read_records(out)) == 4
    assert "| **rflaf** | 1." in printed
    assert "| plane | 1.000 | 2.000 | X |" in printed
    summary = json.loads(out.with_suffix(".json").read_text())
    assert (summary["problems"], summary["seeds"]) == (2, 2)
    assert out.with_suffix(".png").stat().st_size > 5000
    again = json.loads(output(capsys, *command, "--seeds", "2", "--summary", "--json"))
    assert again == summary


def test_a_folder_without_problems_and_a_summary_of_nothing_are_refused(tmp_path, capsys):
    assert "NAME.tsv.gz" in refusal(capsys, "bench", "srbench", "--folder", tmp_path, "-o", tmp_path / "r.jsonl")
    assert "records" in refusal(capsys, "bench", "srbench", "--summary", "-o", tmp_path / "r.jsonl")


def test_the_stored_standings_are_those_of_the_stored_records():
    """The medians of ours come from the records; published ones are not stored, so ranks are checked by their range."""
    summary = json.loads((RESULTS / "srbench.json").read_text())
    runs = srbench.read_records(RESULTS / "srbench.jsonl")
    assert summary["problems"] == len({run.problem for run in runs})
    counts = np.unique([run.problem for run in runs], return_counts=True)[1]
    assert summary["seeds"] == counts.min()
    ours = next(one for one in summary["standings"] if one["algorithm"] == leaderboard.OURS)
    assert ours["size"] == np.median([size for _, size, _ in leaderboard.medians_of(runs).values()])
    assert 1 <= ours["low"] <= ours["rank"] <= ours["high"] <= len(summary["standings"])
