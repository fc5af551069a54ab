"""Every script in benchmarks/ runs on a few rows and prints its table."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

FOLDER = Path(__file__).parent.parent / "benchmarks"
SHARED_PARTS = {
    "breadth_data",
    "breadth_models",
    "breadth_report",
    "breadth_summary",
    "interleaved",
    "markdown_tables",
    "memory",
    "tables",
}
RUNS = {  # script: a small run, and what its table shows
    "against": (
        f"{FOLDER.parent} {FOLDER.parent} --rows 60 --width 3 --rounds 1 --limit 1000",
        r"paper, fit .* ratio +\d",
    ),
    "bench_classifier": (
        "--rows 200 --rounds 1 --widths 3 5 --default-width 3",
        r"predict 40 rows, S=5, as they come: ",
    ),
    "bench_compact": (
        "--rows 60 --batch 50 --few 60 --width 3 --wide 5 --trees 5",
        r"fit kin8nm, S=3, convex: rflaf / LightGBM, 5 trees .* ratio",
    ),
    "bench_dask": ("--rows 800 --parts 4 --width 5", r"two workers +[\d.]+ s, [\d.]+ times faster\nlargest difference"),
    "bench_encoding": ("2000", r"encode an Arrow table +[\d.]+ s +[\d.]+ of read_parquet"),
    "bench_error": ("--rows 200 --seeds 0 --widths 3", r"S=3 +RBFSampler\(gamma='scale'\) \+ Ridge +[\d.]+"),
    "bench_fit": ("--rows 60 --rounds 1 --widths 3", r"fit, S=3, float32: rflaf / RBFSampler \+ Ridge .* ratio"),
    "bench_import": ("--rounds 1", r"import: rflaf / sklearn.linear_model .* ratio"),
    "bench_leverage": ("--rows 200 --rounds 1 --pool 20", r"leverage scores, pool 20, float32: .*\npeak memory"),
    "many_levels": ("--rows 300 --width 3 --seeds 0", r"\| reg-shops \| [\d.]+ \| [\d.]+ \| [\d.]+ "),
    "mutants": ("rows/folds.py --most 1 --minutes 5", r"killed"),
    "precision": ("--sets reg-line --rows 60 --width 3", r"\| reg-line \| \d\.\de-\d\d, [\d.]+ \|"),
    "smaller": (
        "--rows 300 --width 4 --rounds 1",
        r"made-up: [\d,]+ to [\d,]+; file [\d ]+, [\d.]+ times smaller",
    ),
    "soak": ("--minutes 0.05", r"rounds: memory"),
    "bench_predict": ("--rows 60 --batch 50 --widths 3 5 8", r"predict 50 rows, S=8, d=100, float32: rflaf / X @ W"),
    "bench_programs": ("--targets sqlite --rows 20 --width 3", r"\| sqlite \| \d+ \|  \| [\d.]+e-\d+ \|"),
    "bench_reasons": (
        "--rows 60 --width 4 --columns 4 --pairs 100 --truths 1",
        r"explain, S=4, 4 columns, 16 orders: [\d.]+ microseconds(.*\n)+monotone, the larger of two: [\d.]+ of",
    ),
    "bench_serve": (
        "--rows 200 --rounds 1 --widths 3 --cold 1 --first convex",
        r"LightGBM, 100 trees +\d+ ns a row(.*\n)+cold start, rflaf predict(.*\n)+first fit, convex +-?[\d.]+ s to",
    ),
    "bench_single_row": (
        "--rows 60 --rounds 3 --width 3",
        r"LightGBM, 100 trees, Booster.predict +[\d.]+ microseconds",
    ),
    "breadth": (
        "--sets all --kinds pmlb tables --seeds 1 --methods ours ridge --width 3 --published published.csv",
        r"\| rflaf-3 \| [12]\.\d\d (.*\n)+.*\| tables/bin-made_up \| choose \| 90 \| 2 \| 1 \| log-loss \| 0\.\d(.*\n)+"
        r"## rflaf-3 among the published methods, fewer than 100 rows \(sets: 1, medians over 1 of 10 splits\)",
    ),
    "classification": (
        "--rows 120 --seeds 0 --widths 2 3 --trees 5",
        r"adult +LightGBM, 5 trees(.*\n)+cifar10 +default: refined, S=3 .* peak",
    ),
    "compact": (
        "kin8nm --rows 60 --seeds 0 --widths 2 3 --trees 5",
        r"kin8nm +LightGBM, 5 trees +[\d.]+(.*\n)+kin8nm, 1 % of y shifted",
    ),
    "costs": (
        "--models plain --axes S --most 50 --rows 256 --rounds 1 --out c.jsonl --picture c.png",
        r"\| plain \| S \| 25 to 50 \| \*\*-?[\d.]+\*\* (.*\n)+\| plain \| S \| 25 to 50 ",
    ),
    "evidence": ("--check", r"docs/evidence.md: \d places from the records"),
    "distillation": (
        "--kinds sklearn --only iris --teachers extra-trees --seeds 0 1 --width 4 --out d.jsonl",
        r"\| iris, extra-trees \| [\d.]+ \| [\d.]+ \([\d.]+, [\d.]+\) \| [\d.]+ (.*\n)+2 students: loss [+-]",
    ),
    "demonstration": ("--rows 400 --out d.json --picture d.png", r"rflaf, 10: 0\.\d"),
    "exact": ("--rows 200 --seeds 0 --widths 3", r"S=3 +exact / sample: error [+-][\d.]+%, time [\d.]+ times"),
    "few_rows": ("diabetes --seeds 0", r"diabetes +rflaf [\d.]+   ridge [\d.]+   LightGBM"),
    "frontier": (
        "--sets bowl reg-line --rows 80 --widths 3 --rounds 1 --leave-out EBM CatBoost --out r.jsonl --picture r.png",
        r"\| 100 µs \| [012] of 2 (.*\n)+\| rflaf, 3 \| 0\.\d",
    ),
    "intervals": (
        "coverage few quantiles crossings --sets fanned --rows 100 --width 3 --draws 1 --random-rows 1000",
        r"largest distance from the level(.*\n)+0 crossings in 1000 random rows",
    ),
    "loops": (
        "--rounds 1 --rows 96 --width 8 --columns 3 --size 8 --out l.json",
        r"\| features.predict, float32 \| [\d.]+ ",
    ),
    "house": ("", r"lines of source +\d+"),
    "probabilities": (
        "--kinds sklearn --only iris --rivals extra-trees --width 4 --out p.jsonl",
        r"of rflaf, extra-trees .*\n.*\n\| iris \| 50 \| [\d.]+, [\d.]+ \| .*\n\| mean of 1 ",
    ),
    "pictures": ("--rows 150 --width 4", r"display-calibration\.png"),
    "widths": (
        "--sets bowl --rows 80 --seeds 0 --widths 3 4 --out w.jsonl --picture w.png",
        r"\| bowl \| (\*\*)?0\.\d",
    ),
    "table_ranks": (
        f"--records {FOLDER.parent / 'docs' / 'results' / 'tables.jsonl'} --out .",
        r"\| \*\*rflaf\*\* \| 1\.\d\d (.*\n)+\| table \| best ",
    ),
    "walks": ("", r"hops of predict: [1-8]\n"),
    "scale": ("--rows 1000 2000 --models 'width 300, shared'", r"width 300, shared: cost grows with exponent"),
}


def test_every_benchmark_is_run():
    assert {path.stem for path in FOLDER.glob("*.py")} == {*RUNS, *SHARED_PARTS}


def made_up_sets(folder: Path) -> None:
    """A problem in the form of PMLB, two tables with text, and a published result."""
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"a": rng.standard_normal(90), "b": rng.standard_normal(90)})
    mixed = rows.assign(b=rng.choice(["red", "green"], 90))
    for name in ("pmlb", "tables"):
        (folder / name).mkdir()
    rows.assign(target=rows.a**2 + rows.b).to_csv(folder / "pmlb" / "bowl.tsv.gz", sep="\t", index=False)
    for name, target in (("reg-line", mixed.a), ("bin-made_up", np.where(mixed.a + rows.b > 0, "yes", "no"))):
        mixed.assign(target=target).to_parquet(folder / "tables" / f"{name}.parquet")
    (folder / "published.csv").write_text("algorithm,dataset,r2_median\nLinear,bowl,0.5\n")


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_a_benchmark_prints_its_table(name, tmp_path):
    small, table = RUNS[name]
    command = [sys.executable, str(FOLDER / f"{name}.py"), *shlex.split(small)]
    if name == "pictures":
        command += ["--folder", str(tmp_path)]
    made_up = {key: value for key, value in os.environ.items() if key != "RFLAF_DATA_DIR"}
    if name in {"breadth", "frontier", "precision", "widths"}:
        made_up_sets(tmp_path)
        made_up["RFLAF_DATA_DIR"] = str(tmp_path)
    answer = subprocess.run(command, capture_output=True, text=True, check=False, env=made_up, cwd=tmp_path)
    assert re.search(table, answer.stdout), answer.stdout + answer.stderr
    assert answer.returncode == 0 or name == "scale", answer.stderr  # which judges what it measures
    assert not any(line.startswith("Traceback") for line in answer.stderr.splitlines())
