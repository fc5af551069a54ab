"""The frontier: test error against the cost of a prediction, for ours at several widths and the usual models.

python benchmarks/frontier.py [--sets kin8nm ...] [--rows 3000] [--seeds 0] [--out frontier.jsonl]. Regressions with
their rows as numbers (text by the package's own encoding, the same for all); a fifth of the rows is the test. All
models of a set are fitted, then timed in turns on one thread: microseconds of processor time per row in batches of
10,000 rows, and of one row alone. Each model is one line of the file of records; sets that are complete are not run
again, unless `--renew` is given. With `--fits FOLDER` the fits of the others are kept there, so that a later run fits
only ours and still times all in turns; `--widths` without a number leaves ours out, to fill that folder. `--sets all`
takes every regression at hand with 2,000 rows or more. `--summary` fits nothing and writes the summary (.json), the
table (.md) and the pictures from the records.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from time import process_time
from typing import Any

import joblib
import numpy as np
import pandas as pd
from breadth_data import SAME_ROWS, Problem, found
from interleaved import medians
from markdown_tables import markdown_table
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from rflaf import RFLAFRegressor
from rflaf.inspection.plots.labels import put_labels

BATCH = 10_000
LEAST_ERROR = 1e-3  # of the variance: below it, differences are of no use
FEWEST = 2_000  # rows of a set of `--sets all`
BUDGETS = (0.1, 0.3, 1.0, 3.0, 10.0, 100.0)
OURS = "rflaf"
EBM_BAGS = 4  # its default of 14 takes four times as long; a prediction costs the same
NAMED = ("ridge", "MLP", "CatBoost", "LightGBM, 100", "LightGBM, 1000", "XGBoost, 100", "Nystroem, 300")
SETS = (  # regressions of different sizes and kinds
    "kin8nm", "powerplant", "reg-diamonds", "564_fried", "reg-abalone", "537_houses", "reg-cpu_act", "reg-wind",
    "225_puma8NH", "344_mv", "protein", "workloads-radius",
)  # fmt: skip
WIDTHS: tuple[int | str, ...] = (10, 30, 100, 300, 1000, "auto")
RESULTS = Path(__file__).parent.parent / "docs" / "results" / "frontier.jsonl"
PICTURE = Path(__file__).parent.parent / "docs" / "images" / "frontier.png"  # over all sets; -sets.png has each
Record = dict[str, Any]


def contestants(seed: int, widths: Sequence[int | str]) -> dict[str, Callable[[], Any]]:
    """What is compared, as functions that make it: those whose library is missing fail and are left out."""
    from catboost import CatBoostRegressor
    from lightgbm import LGBMRegressor
    from xgboost import XGBRegressor

    penalties = np.logspace(-3, 4, 15)

    def ebm() -> Any:
        from interpret.glassbox import ExplainableBoostingRegressor

        return ExplainableBoostingRegressor(outer_bags=EBM_BAGS, random_state=seed, n_jobs=1)

    def features(kind: Callable[..., Any], **settings: Any) -> Callable[[], Any]:
        map_ = kind(n_components=300, random_state=seed, **settings)
        return lambda: make_pipeline(StandardScaler(), map_, RidgeCV(penalties))

    def boosted(kind: Any, n_trees: int, **settings: Any) -> Callable[[], Any]:
        return lambda: kind(n_estimators=n_trees, random_state=seed, n_jobs=1, **settings)

    trees = {f"LightGBM, {n}": boosted(LGBMRegressor, n, verbose=-1) for n in (30, 100, 1000)}
    trees |= {f"XGBoost, {n}": boosted(XGBRegressor, n) for n in (10, 30, 100, 500)}
    cat = {"thread_count": 1, "random_seed": seed, "verbose": False, "allow_writing_files": False}
    return {
        "ridge": lambda: make_pipeline(StandardScaler(), RidgeCV(penalties)),
        "RBFSampler, 300": features(RBFSampler, gamma="scale"),
        "Nystroem, 300": features(Nystroem),
        "MLP": lambda: make_pipeline(StandardScaler(), MLPRegressor(early_stopping=True, random_state=seed)),
        "HistGradientBoosting": lambda: HistGradientBoostingRegressor(random_state=seed),
        **trees,
        "CatBoost": lambda: CatBoostRegressor(**cat),
        "extra trees": lambda: ExtraTreesRegressor(n_jobs=1, random_state=seed),
        "EBM": ebm,
        **{f"{OURS}, {width}": lambda width=width: RFLAFRegressor(width, random_state=seed) for width in widths},
    }


def regressions() -> dict[str, Problem]:
    """The regressions at hand by name."""
    problems = [one for one in found(["paper", "pmlb", "tables"]) if one.task == "regression"]
    return {one.name: one for one in problems}


def large_sets() -> list[str]:
    """The regressions at hand with enough rows, each once."""
    problems = [one for one in regressions().values() if one.key not in SAME_ROWS]
    return [one.name for one in problems if len(one.read()[1]) >= FEWEST]


def rows_of(name: str, most: int) -> tuple[np.ndarray, np.ndarray]:
    """At most so many rows of a set as numbers, and the target with unit variance."""
    problem = regressions().get(name)
    if problem is None:
        raise SystemExit(f"{name} is not among the regressions of RFLAF_DATA_DIR")
    X, y = problem.read()
    kept = np.random.default_rng(0).permutation(len(y))[:most]
    X, y = X.iloc[kept] if isinstance(X, pd.DataFrame) else X[kept], y[kept]
    if isinstance(X, pd.DataFrame):
        X = as_numbers(X)
    return np.ascontiguousarray(X, np.float64), (y - y.mean()) / y.std()


def as_numbers(frame: pd.DataFrame) -> np.ndarray:
    """A frame as the package reads it."""
    import pyarrow as pa

    from rflaf.rows.tables import make_encoding, summarise

    table = pa.Table.from_pandas(frame, preserve_index=False)
    return np.asarray(make_encoding(summarise(table), ()).transform(table))


def fitted_in(fit: Callable[[], Any], path: Path | None) -> tuple[Any, float]:
    """A fitted model and the seconds of its fit, from a file where an earlier run has kept them."""
    if path is not None and path.exists():
        return joblib.load(path)
    start = process_time()
    kept = fit(), process_time() - start
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        joblib.dump(kept, path)
    return kept


def measured(name: str, given: argparse.Namespace, seed: int) -> list[Record]:
    """All contestants on one split of one set."""
    X, y = rows_of(name, given.rows)
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.2, random_state=seed)
    batch, row = np.resize(X_test, (BATCH, X.shape[1])), X_test[:1].copy()
    fitted, records = {}, []
    for method, make in contestants(seed, given.widths).items():
        if method in given.leave_out:
            continue
        keep = given.fits is not None and not method.startswith(OURS)
        path = given.fits / f"{name}-{len(y_train)}-{seed}-{method}.joblib" if keep else None
        try:
            model, seconds = fitted_in(lambda make=make: make().fit(X_train, y_train), path)
        except ImportError:
            continue
        error = float(np.mean((np.ravel(model.predict(X_test)) - y_test) ** 2) / np.var(y_test))
        fitted[method] = model
        records.append(
            {"set": name, "seed": seed, "rows": len(y_train), "method": method, "error": error, "fit": seconds}
        )
        print(f"{name}, {method}: {error:.4f}, {seconds:.1f} s", file=sys.stderr, flush=True)
    in_batch = medians({m: lambda f=f: f.predict(batch) for m, f in fitted.items()}, given.rounds, process_time)
    many = {m: lambda f=f: [f.predict(row) for _ in range(20)] for m, f in fitted.items()}
    alone = medians(many, given.rounds, process_time)
    return [
        {**record, "batch_us": 1e6 * in_batch[record["method"]] / BATCH, "row_us": 1e6 * alone[record["method"]] / 20}
        for record in records
    ]


def read_records(path: Path) -> list[Record]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def write_records(path: Path, records: Sequence[Record]) -> None:
    """The records as a file, which is whole at every moment."""
    unfinished = path.with_suffix(".part")
    unfinished.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    unfinished.replace(path)


def frontier_of(records: Sequence[Record]) -> list[Record]:
    """The records of a set that no other beats in both error and cost, the cheapest first."""
    kept: list[Record] = []
    for record in sorted(records, key=lambda one: (one["batch_us"], one["error"])):
        if not kept or record["error"] < kept[-1]["error"]:
            kept.append(record)
    return kept


def means(records: Sequence[Record]) -> dict[str, list[Record]]:
    """By set, one record for each method: the means over its seeds."""
    groups: dict[str, dict[str, list[Record]]] = {}
    for record in records:
        groups.setdefault(record["set"], {}).setdefault(record["method"], []).append(record)
    numbers = ("error", "fit", "batch_us", "row_us")
    return {
        name: [
            {**group[0], **{n: float(np.mean([r[n] for r in group])) for n in numbers}} for group in methods.values()
        ]
        for name, methods in groups.items()
    }


def owners(records: Sequence[Record]) -> dict[str, dict[str, str]]:
    """For every budget, the method of lowest error that keeps it on each set."""
    return {
        f"{budget:g}": {
            name: min(affordable, key=lambda one: one["error"])["method"]
            for name, group in means(records).items()
            if (affordable := [one for one in group if one["batch_us"] <= budget])
        }
        for budget in BUDGETS
    }


def owners_table(records: Sequence[Record]) -> str:
    """One row for each budget: how many sets each family owns, and who owns those that ours does not."""
    errors = {name: {one["method"]: one["error"] for one in group} for name, group in means(records).items()}
    rows, costs = [], means(records)
    for budget, by_set in owners(records).items():
        ours = sum(method.startswith(OURS) for method in by_set.values())
        lost = []
        for name, method in by_set.items():
            if not method.startswith(OURS):
                mine = [
                    r["error"] for r in costs[name] if r["method"].startswith(OURS) and r["batch_us"] <= float(budget)
                ]
                less = f", {1 - errors[name][method] / min(mine):.1%} less" if mine else ", none of ours is as quick"
                lost.append(f"{name} ({method}{less})")
        rows.append([f"{budget} µs", f"{ours} of {len(by_set)}", "; ".join(lost) or "none"])
    return markdown_table(["budget per row", f"lowest error by {OURS}", "lost to"], rows)


def errors_table(records: Sequence[Record]) -> str:
    """Errors by method and set, and the median cost."""
    by_set = means(records)
    methods = list(dict.fromkeys(one["method"] for group in by_set.values() for one in group))
    rows = []
    for method in methods:
        mine = {name: one for name, group in by_set.items() for one in group if one["method"] == method}
        cells = [f"{mine[name]['error']:.4f}" if name in mine else "-" for name in by_set]
        cost = [f"{np.median([one[n] for one in mine.values()]):.2g}" for n in ("batch_us", "row_us")]
        rows.append([method, *cells, *cost])
    return markdown_table(["method", *by_set, "µs per row in a batch", "µs for one row"], rows)


def medians_over_sets(records: Sequence[Record], method: str) -> dict[str, float]:
    """The median costs of a method over the sets."""
    mine = [one for group in means(records).values() for one in group if one["method"] == method]
    return {name: float(f"{np.median([one[name] for one in mine]):.3g}") for name in ("fit", "batch_us", "row_us")}


def over_sets(records: Sequence[Record]) -> list[Record]:
    """By method, the geometric mean of error / lowest error of the set and the median cost, over the same sets."""
    by_set = means(records)
    lowest = {name: min(one["error"] for one in group) for name, group in by_set.items()}
    ratios: dict[str, list[float]] = {}
    for name, group in by_set.items():
        for one in group:
            ratios.setdefault(one["method"], []).append(one["error"] / max(lowest[name], LEAST_ERROR))
    return [
        {"method": method, "error": float(np.exp(np.mean(np.log(np.maximum(found, 1.0))))),
         **medians_over_sets(records, method)}
        for method, found in ratios.items() if len(found) == len(by_set)
    ]  # fmt: skip


def draw(records: Sequence[Record], path: Path) -> None:
    """All methods over all sets in one panel: error relative to the lowest of a set, against the cost."""
    from rflaf.inspection.plots import BLUE, GREY, require_matplotlib
    from rflaf.inspection.plots.style import plain_log

    plt, points = require_matplotlib(), over_sets(records)
    mine = sorted((p for p in points if p["method"].startswith(OURS)), key=lambda one: one["batch_us"])
    figure, ax = plt.subplots(figsize=(8.4, 4.6), layout="constrained")
    line = [one for one in mine if not one["method"].endswith("auto")]
    ax.plot([one["batch_us"] for one in line], [one["error"] for one in line], color=BLUE, lw=1.5, alpha=0.25)
    for one in points:
        ours = one["method"].startswith(OURS)
        ax.plot(one["batch_us"], one["error"], "o", color=BLUE if ours else GREY, ms=8 if ours else 6)
    ax.set(xscale="log", yscale="log", ylabel="test error, relative to the lowest of a data set")
    ax.set_xlabel("microseconds to predict a row, in batches of 10,000 on one thread")
    plain_log(ax.yaxis)
    ax.yaxis.get_major_locator().set_params(subs=(1, 1.2, 1.5, 2, 3, 5))
    ax.xaxis.set_major_formatter("{x:g}")
    ax.margins(x=0.12, y=0.12)
    ax.spines[["top", "right"]].set_visible(False)
    n_sets = len(means(records))
    ax.set_title(
        f"{OURS}, by number of components, and other models, over {n_sets} regressions; lower left is better",
        loc="left",
        fontsize=11,
    )
    first = sorted(points, key=lambda one: (not one["method"].startswith(OURS), one["batch_us"]))
    put_labels(
        ax,
        [(one["batch_us"], one["error"], one["method"]) for one in first],
        [
            {"color": BLUE, "fontweight": "bold"} if one["method"].startswith(OURS) else {"color": "0.3"}
            for one in first
        ],
    )
    figure.savefig(path, dpi=130)
    plt.close(figure)


def draw_sets(records: Sequence[Record], path: Path) -> None:
    """Errors against the cost, one panel for each set, the frontier as a line."""
    from rflaf.inspection.plots import BLUE, GREY, ORANGE, require_matplotlib
    from rflaf.inspection.plots.style import grid_of_axes

    plt, by_set = require_matplotlib(), means(records)
    figure, axes = grid_of_axes(len(by_set), 3, (3.4, 2.9))
    drawn: list[tuple[Any, list[Record], list[Record]]] = []  # axes, points in them, and those to name first
    for ax, (name, group) in zip(axes.flat, by_set.items(), strict=False):
        best = frontier_of(group)
        top, low = 1.6 * np.median([one["error"] for one in group]), min(one["error"] for one in group)
        ax.step([one["batch_us"] for one in best], [one["error"] for one in best], where="post", color=ORANGE, lw=1.5)
        shown = [one for one in group if one["error"] < max(top, 1.5 * low)]
        top = max(one["error"] for one in shown)
        pad = 0.1 * (top - low)
        for one in shown:
            ours = one["method"].startswith(OURS)
            ax.plot(one["batch_us"], one["error"], "o", color=BLUE if ours else GREY, ms=6 if ours else 4)
        ax.set(xscale="log", title=name.removeprefix("reg-"), ylim=(low - 1.5 * pad, top + pad))
        ax.xaxis.set_major_formatter("{x:g}")
        ax.margins(x=0.15)
        ax.tick_params(labelsize=7, which="both")
        ax.spines[["top", "right"]].set_visible(False)
        drawn.append((ax, shown, [one for one in shown if one in best or one["method"].startswith(OURS)]))
    figure.supxlabel("microseconds per row, in batches of 10,000 on one thread", fontsize=9)
    figure.supylabel("test error / variance", fontsize=9)
    handles = [plt.Line2D([], [], marker="o", ls="", color=c) for c in (BLUE, GREY)] + [
        plt.Line2D([], [], color=ORANGE)
    ]
    names = [f"{OURS}, by width", "others", "lowest error at every cost"]
    figure.legend(handles, names, loc="outside upper center", ncols=3, frameon=False, fontsize=9)
    for ax, shown, first in drawn:
        named = [*first, *(one for one in shown if one not in first and one["method"] in NAMED)]
        mute = [one for one in shown if one not in named]
        ours = [one["method"].startswith(OURS) for one in named]
        put_labels(
            ax,
            [(one["batch_us"], one["error"], one["method"].removeprefix(f"{OURS}, ")) for one in named]
            + [(one["batch_us"], one["error"], "") for one in mute],
            [{"color": BLUE, "fontsize": 8} if mine else {"color": "0.4", "fontsize": 7} for mine in ours]
            + [{}] * len(mute),
        )
    figure.savefig(path, dpi=120)
    plt.close(figure)


def summarise(out: Path, picture: Path) -> None:
    records = read_records(out)
    if not records:
        raise SystemExit(f"{out} holds no records")
    text = f"{owners_table(records)}\n\n{errors_table(records)}\n"
    out.with_suffix(".md").write_text(text, encoding="utf-8")
    methods = {one["method"] for one in records}
    about = {"sets": len(means(records)), "methods": len(methods), "rows": max(one["rows"] for one in records)}
    medians_of = {method: medians_over_sets(records, method) for method in sorted(methods)}
    summary = {**about, "owners": owners(records), "medians": medians_of}
    out.with_suffix(".json").write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
    draw(records, picture)
    draw_sets(records, picture.with_name(f"{picture.stem}-sets{picture.suffix}"))
    print(text)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="+", default=list(SETS), help="names, or all")
    parser.add_argument("--rows", type=int, default=3000, help="at most so many rows of a set")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--widths", nargs="*", type=lambda w: w if w == "auto" else int(w), default=list(WIDTHS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--leave-out", nargs="+", default=[], metavar="METHOD")
    parser.add_argument("--out", type=Path, default=RESULTS, help="the file of records")
    parser.add_argument("--picture", type=Path, default=PICTURE)
    parser.add_argument("--fits", type=Path, help="a folder that keeps the fits of the others")
    parser.add_argument("--renew", action="store_true", help="run the sets again that have records")
    parser.add_argument("--summary", action="store_true", help="fit nothing")
    given = parser.parse_args(argv)
    sets = large_sets() if given.sets == ["all"] else given.sets
    done = set() if given.renew else {(record["set"], record["seed"]) for record in read_records(given.out)}
    todo = [] if given.summary else [(n, s) for s in given.seeds for n in sets if (n, s) not in done]
    for name, seed in todo:
        with threadpool_limits(1), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the rivals, about names of columns and convergence
            records = measured(name, given, seed)
        others = [one for one in read_records(given.out) if (one["set"], one["seed"]) != (name, seed)]
        write_records(given.out, [*others, *records])
    summarise(given.out, given.picture)


if __name__ == "__main__":
    main()
