"""Cost curves: seconds and memory of fit and predict against n, d, S, N and the pool, and their exponents.

python benchmarks/costs.py [--models plain ...] [--axes n ...] [--rounds 3] [--minutes 5] [--out costs.jsonl]. One
number varies, the others stay at BASE. A curve is measured in a process of its own, one thread, in processor time, and
the rounds visit all curves in turn; every line of the file of records is one point, and curves that are complete are
not measured again. An exponent is the slope of log seconds in log size, with its 95 % interval; beside it stands the
slope of the number of operations that section 4 of the paper states, or that the method needs, over the same sizes.
`--summary` measures nothing and writes the summary (.json), the table (.md) and the picture from the records.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic, process_time
from typing import Any

import numpy as np
from markdown_tables import markdown_table
from memory import forget_peak, peak_since, resident
from scipy.stats import linregress, t
from threadpoolctl import threadpool_limits

from rflaf import BSplineBasis, GreedySelection, LeverageSampling, RFLAFRegressor

RESULTS = Path(__file__).parent.parent / "docs" / "results" / "costs.jsonl"
PICTURE = Path(__file__).parent.parent / "docs" / "images" / "costs.png"
Record = dict[str, Any]
LEAST_SECONDS, MOST_REPEATS = 0.3, 9  # shorter fits are repeated
LOOK_UP = 12  # operations of one cubic: clip, round, look up, three products and sums


@dataclass(frozen=True, slots=True)
class Size:
    """Rows, columns, components, basis functions, directions in the pool."""

    n: int = 2**16
    d: int = 10
    S: int = 100
    N: int = 16
    pool: int = 1000


BASE = Size()
VALUES = {  # of every axis
    "n": tuple(2**k for k in range(15, 21)),
    "d": (5, 10, 20, 40, 80, 160),
    "S": (25, 50, 100, 200, 400),
    "N": (8, 16, 32, 64),
    "pool": (500, 1000, 2000, 4000),
}


def plain(at: Size) -> RFLAFRegressor:
    return RFLAFRegressor(at.S, directions="random", activation="shared", basis=BSplineBasis(at.N), **ONE)


def leverage(at: Size) -> RFLAFRegressor:
    return plain(at).set_params(sampling=LeverageSampling(pool_size=at.pool))


def convex(at: Size) -> RFLAFRegressor:
    sampling = GreedySelection(pool_size=at.pool)
    return RFLAFRegressor.convex(at.S, basis=BSplineBasis(at.N), **ONE).set_params(sampling=sampling)


def refined(at: Size) -> RFLAFRegressor:
    return RFLAFRegressor(at.S, basis=BSplineBasis(at.N), **ONE)


ONE: dict[str, Any] = {"n_jobs": 1, "random_state": 0}
MODELS: dict[str, Callable[[Size], RFLAFRegressor]] = {
    "plain": plain, "leverage": leverage, "convex": convex, "refined": refined,
}  # fmt: skip
AXES = {
    "plain": ("n", "d", "S", "N"),
    "leverage": ("n", "d", "S", "N", "pool"),
    "convex": ("n", "d", "S", "N", "pool"),
    "refined": ("n", "d", "S", "N"),
}


def _paper_prediction(at: Size) -> float:
    return at.n * max(at.d, at.N) * at.S


STATED: dict[tuple[str, str], tuple[str, Callable[[Size], float]]] = {  # operations by section 4 of the paper
    ("plain", "fit"): ("E n max(d, N) S", _paper_prediction),
    ("leverage", "fit"): (
        "E n max(d, N) (s + S) + n s² + s³",
        lambda at: at.n * max(at.d, at.N) * (at.pool + at.S) + at.n * at.pool**2 + at.pool**3,
    ),
    ("plain", "predict"): ("n max(d, N) S", _paper_prediction),
    ("leverage", "predict"): ("n max(d, N) S", _paper_prediction),
}
NEEDED: dict[tuple[str, str], tuple[str, Callable[[Size], float]]] = {  # operations of what the paper does not cover
    ("convex", "fit"): (
        "16 n S² + (S N)³ / 3 + 12,000 s S",
        lambda at: 16 * at.n * at.S**2 + (at.S * at.N) ** 3 / 3 + 12_000 * at.pool * at.S,
    ),
    ("refined", "fit"): ("E n S (d + c)", lambda at: at.n * at.S * (at.d + LOOK_UP)),
    ("convex", "predict"): ("n S (d + c)", lambda at: at.n * at.S * (at.d + LOOK_UP)),
    ("refined", "predict"): ("n S (d + c)", lambda at: at.n * at.S * (at.d + LOOK_UP)),
}


def rows_of(at: Size) -> tuple[np.ndarray, np.ndarray]:
    """Rows whose answer bends in one column and multiplies two, with noise."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((at.n, at.d))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.standard_normal(at.n)
    return X, y


def watched(run: Callable[[], object]) -> tuple[float, float]:
    """Median seconds of processor time, short runs repeated, and the largest memory on the way beside that before."""
    seconds: list[float] = []
    before = resident()
    forget_peak()
    while not seconds or (sum(seconds) < LEAST_SECONDS and len(seconds) < MOST_REPEATS):
        start = process_time()
        run()
        seconds.append(process_time() - start)
    return float(np.median(seconds)), peak_since() - before


def perform(model: str, axis: str, values: Sequence[int], base: Size) -> None:
    """Print one record for every point of a curve, from the smallest on."""
    with threadpool_limits(1):
        warm = replace(base, n=min(base.n, 4096), S=16, pool=min(base.pool, 64))
        X, y = rows_of(warm)
        MODELS[model](warm).fit(X, y).predict(X)
        for value in values:
            at = replace(base, **{axis: value})
            X, y = rows_of(at)
            estimator = MODELS[model](at)
            fit, fit_bytes = watched(lambda e=estimator, X=X, y=y: e.fit(X, y))
            predict, predict_bytes = watched(lambda e=estimator, X=X: e.predict(X))
            point = {"model": model, "axis": axis, "value": value, "fit": fit, "predict": predict}
            print(json.dumps({**point, "fit_bytes": fit_bytes, "predict_bytes": predict_bytes}), flush=True)


def measure(model: str, axis: str, turn: int, given: argparse.Namespace) -> None:
    """Measure one curve in another process and append its points to the records."""
    values = [value for value in VALUES[axis] if value <= given.most]
    task = [sys.executable, __file__, "--task", model, axis, *map(str, values), "--rows", str(given.rows)]
    answer = subprocess.run(task, capture_output=True, text=True, check=False)
    if answer.returncode:
        raise SystemExit(f"{model}, {axis}: {answer.stderr[-2000:]}")
    points = [json.loads(line) | {"round": turn} for line in answer.stdout.splitlines()]
    with given.out.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(point) + "\n" for point in points)
    seconds = ", ".join(f"{point['fit']:.2f}" for point in points)
    print(f"{model} against {axis}, round {turn + 1}: {seconds} s", file=sys.stderr, flush=True)


def read_records(path: Path) -> list[Record]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def slope(sizes: Sequence[float], costs: Sequence[float]) -> tuple[float, float, float]:
    """The exponent of costs in sizes, and its 95 % interval."""
    line = linregress(np.log(sizes), np.log(costs))
    reach = float(t.ppf(0.975, max(len(sizes) - 2, 1)) * line.stderr)
    return float(line.slope), float(line.slope - reach), float(line.slope + reach)


def exponents(records: Sequence[Record]) -> list[Record]:
    """For every curve the exponents of fit and predict, those of the larger half of the sizes, and of memory."""
    curves: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        curves.setdefault((record["model"], record["axis"]), []).append(record)
    return [
        _exponent(points, what)
        for what in ("fit", "predict")
        for model in MODELS
        for axis in AXES[model]
        if (points := curves.get((model, axis))) and not (what == "predict" and axis == "pool")
    ]


def _exponent(points: list[Record], what: str) -> Record:
    model, axis = points[0]["model"], points[0]["axis"]
    sizes = sorted({point["value"] for point in points})
    upper = [point for point in points if point["value"] in sizes[-3:]]
    value, low, high = slope([p["value"] for p in points], [p[what] for p in points])
    formula, operations = (STATED | NEEDED)[model, what]
    counts = [operations(replace(BASE, **{axis: size})) for size in sizes]
    last = [point for point in points if point["value"] == sizes[-1]]
    return {
        "what": what, "model": model, "axis": axis, "from": sizes[0], "to": sizes[-1],
        "exponent": value, "low": low, "high": high,
        "upper": slope([p["value"] for p in upper], [p[what] for p in upper])[0],
        "formula": formula, "of_paper": (model, what) in STATED, "predicted": slope(sizes, counts)[0],
        "seconds": float(np.median([p[what] for p in last])),
        "bytes": float(np.median([p[f"{what}_bytes"] for p in last])),
    }  # fmt: skip


def table(found: Sequence[Record], what: str) -> str:
    """One row for each curve."""
    rows = [
        [
            one["model"], one["axis"], f"{one['from']:,} to {one['to']:,}",
            f"**{one['exponent']:.2f}** ({one['low']:.2f} to {one['high']:.2f})", f"{one['upper']:.2f}",
            f"{one['predicted']:.2f}", f"{one['seconds']:.3g}", f"{max(one['bytes'], 0) / 1e6:,.0f}",
        ]
        for one in found
        if one["what"] == what
    ]  # fmt: skip
    head = [what, "varied", "sizes", "exponent (95 %)", "three largest", "predicted", "seconds", "MB"]
    return markdown_table(head, rows)


def draw(records: Sequence[Record], path: Path) -> None:
    """Seconds against every axis, one panel for each; fits above, predictions below."""
    from rflaf.inspection.plots import BLUE, GREY, ORANGE, require_matplotlib

    plt, axes_ = require_matplotlib(), list(VALUES)
    colours = {"plain": GREY, "leverage": "0.35", "convex": ORANGE, "refined": BLUE}
    figure, panels = plt.subplots(2, len(axes_), figsize=(12, 5), layout="constrained", sharey="row")
    for row, what in zip(panels, ("fit", "predict"), strict=True):
        for ax, axis in zip(row, axes_, strict=True):
            for model, colour in colours.items():
                mine = [r for r in records if (r["model"], r["axis"]) == (model, axis)]
                sizes = sorted({r["value"] for r in mine})
                medians = [np.median([r[what] for r in mine if r["value"] == size]) for size in sizes]
                if sizes and not (what == "predict" and axis == "pool"):
                    ax.plot(sizes, medians, "o-", color=colour, ms=3.5, lw=1.4, label=model)
            ax.set(xscale="log", yscale="log")
            ax.minorticks_off()
            ax.set_xticks(VALUES[axis], [f"{v / 1000:,.0f}k" if v >= 10_000 else f"{v:,}" for v in VALUES[axis]])
            ax.tick_params(labelsize=7)
            ax.spines[["top", "right"]].set_visible(False)
            low, high = ax.get_xlim()
            if what == "fit" or axis != "pool":
                bottom = ax.get_ylim()[0] * 1.3
                guide = np.array([low * 1.2, high / 1.2])
                ax.plot(guide, bottom * guide / guide[0], ":", color="0.7", lw=1, zorder=0)
                ax.set(xlim=(low, high))
    names = {"n": "rows n", "d": "columns d", "S": "components S", "N": "basis functions N", "pool": "pool s"}
    for ax, axis in zip(panels[1], axes_, strict=True):
        ax.set_xlabel(names[axis], fontsize=9)
    panels[0, -1].set_xlabel(names["pool"], fontsize=9)
    panels[1, -1].set_visible(False)
    panels[0, 0].set_ylabel("fit, seconds", fontsize=9)
    panels[1, 0].set_ylabel("predict 65,536 rows, seconds\n(left panel: n rows)", fontsize=9)
    handles, labels = panels[0, 0].get_legend_handles_labels()
    handles.append(plt.Line2D([], [], ls=":", color="0.7"))
    figure.legend(
        handles, [*labels, "exponent 1"], loc="outside upper center", ncols=len(handles), frameon=False, fontsize=9
    )
    figure.savefig(path, dpi=110)
    plt.close(figure)


def summarise(out: Path, picture: Path) -> None:
    records = read_records(out)
    if not records:
        raise SystemExit(f"{out} holds no records")
    found = exponents(records)
    text = f"{table(found, 'fit')}\n\n{table(found, 'predict')}\n"
    out.with_suffix(".md").write_text(text, encoding="utf-8")
    rounds = len({record["round"] for record in records})
    out.with_suffix(".json").write_text(json.dumps({"rounds": rounds, "curves": found}, indent=1) + "\n")
    draw(records, picture)
    print(text)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--axes", nargs="+", default=list(VALUES), choices=list(VALUES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=BASE.n, help="rows where another number varies")
    parser.add_argument("--most", type=int, default=max(VALUES["n"]), help="no larger size")
    parser.add_argument("--minutes", type=float, default=np.inf, help="start no curve after so many minutes")
    parser.add_argument("--out", type=Path, default=RESULTS, help="the file of records")
    parser.add_argument("--picture", type=Path, default=PICTURE)
    parser.add_argument("--summary", action="store_true", help="measure nothing")
    parser.add_argument("--task", nargs="+", help=argparse.SUPPRESS)
    given = parser.parse_args(argv)
    if given.task:
        model, axis, *values = given.task
        perform(model, axis, [int(value) for value in values], replace(BASE, n=given.rows))
        return
    begun = monotonic()
    done = {(record["model"], record["axis"], record["round"]) for record in read_records(given.out)}
    curves = [(m, a, turn) for turn in range(given.rounds) for m in given.models for a in AXES[m] if a in given.axes]
    for curve in () if given.summary else curves:
        if curve not in done and monotonic() - begun < 60 * given.minutes:
            measure(*curve, given)
    summarise(given.out, given.picture)


if __name__ == "__main__":
    main()
