"""The paper's claim as a user reads it: test error against width for plain, leverage, convex and refined models.

python benchmarks/widths.py [--sets kin8nm ...] [--rows 6000] [--seeds 0 1] [--minutes 5] [--out widths.jsonl]. A fifth
of the rows is the test; all choices but the width are automatic, and inside the training rows. Every fit is one line of
the file of records and is not repeated. `--summary` fits nothing and writes the summary (.json), the table (.md) and
the picture from the records.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from time import monotonic, process_time
from typing import Any

import numpy as np
from frontier import read_records, rows_of
from markdown_tables import markdown_table
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

from rflaf import RFLAFRegressor

SETS = (
    "kin8nm", "powerplant", "protein", "workloads-radius", "reg-diamonds", "564_fried", "reg-abalone", "537_houses",
    "197_cpu_act", "225_puma8NH",
)  # fmt: skip
WIDTHS = (10, 30, 100, 300)
RANDOM: dict[str, Any] = {"directions": "random", "activation": "shared"}
MODELS: dict[str, Callable[..., RFLAFRegressor]] = {
    "plain": lambda width, **one: RFLAFRegressor(width, **RANDOM, **one),
    "leverage": lambda width, **one: RFLAFRegressor(width, **RANDOM, sampling="leverage", **one),
    "convex": lambda width, **one: RFLAFRegressor.convex(width, **one),
    "refined": lambda width, **one: RFLAFRegressor(width, **one),
}
RESULTS = Path(__file__).parent.parent / "docs" / "results" / "widths.jsonl"
PICTURE = Path(__file__).parent.parent / "docs" / "images" / "widths.png"
READ_AT = 100  # the width of the table
Record = dict[str, Any]


def fitted(name: str, seed: int, model: str, width: int, most: int) -> Record:
    """Fit one model to one split and judge it."""
    X, y = rows_of(name, most)
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.2, random_state=seed)
    estimator = MODELS[model](width, n_jobs=1, random_state=seed)
    start = process_time()
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of outlying targets
        estimator.fit(X_train, y_train)
    seconds = process_time() - start
    error = float(np.mean((estimator.predict(X_test) - y_test) ** 2) / np.var(y_test))
    about = {"set": name, "seed": seed, "model": model, "width": width, "rows": len(y_train)}
    print(f"{name}, {model}, S={width}: {error:.4f}, {seconds:.1f} s", file=sys.stderr, flush=True)
    return {**about, "error": error, "fit": seconds}


def curves(records: Sequence[Record]) -> dict[str, dict[str, dict[int, float]]]:
    """Mean error over the seeds by set, model and width."""
    groups: dict[tuple[str, str, int], list[float]] = {}
    for one in records:
        groups.setdefault((one["set"], one["model"], one["width"]), []).append(one["error"])
    found: dict[str, dict[str, dict[int, float]]] = {}
    for (name, model, width), errors in sorted(groups.items(), key=lambda group: group[0][2]):
        found.setdefault(name, {}).setdefault(model, {})[width] = float(np.mean(errors))
    return {name: found[name] for name in dict.fromkeys(one["set"] for one in records)}


def width_for(curve: dict[int, float], error: float) -> float:
    """The width at which a curve reaches an error, between its widths on a line of logarithms; infinite if never."""
    widths = sorted(curve)
    if curve[widths[0]] <= error:
        return widths[0]
    for narrow, wide in pairwise(widths):
        if curve[wide] <= error < curve[narrow]:
            share = np.log(curve[narrow] / error) / np.log(curve[narrow] / curve[wide])
            return float(np.exp(np.log(narrow) + share * np.log(wide / narrow)))
    return float("inf")


def table(found: dict[str, dict[str, dict[int, float]]], at: int) -> str:
    """Errors at one width, and the width that each needs for the error of the plain model there."""
    rows = []
    for name, by_model in found.items():
        errors = [by_model.get(model, {}).get(at, float("nan")) for model in MODELS]
        best = min(errors)
        cells = [f"**{error:.4f}**" if error == best else f"{error:.4f}" for error in errors]
        needed = [width_for(by_model[model], errors[0]) for model in MODELS if model != "plain" and model in by_model]
        words = [f"at most {w:.0f}" if w <= min(WIDTHS) else "more" if np.isinf(w) else f"{w:.0f}" for w in needed]
        rows.append([name.removeprefix("reg-"), *cells, *words])
    head = [f"{model}, S={at}" for model in MODELS]
    return markdown_table(["data", *head, *(f"{m}: S for the error of plain" for m in MODELS if m != "plain")], rows)


def draw(found: dict[str, dict[str, dict[int, float]]], path: Path) -> None:
    """One small panel for each set, all models in each."""
    from rflaf.inspection.plots import BLUE, GREY, ORANGE, require_matplotlib
    from rflaf.inspection.plots.style import grid_of_axes, plain_log

    plt = require_matplotlib()
    looks = {"plain": (GREY, "o-"), "leverage": ("0.35", "s--"), "convex": (ORANGE, "o-"), "refined": (BLUE, "o-")}
    figure, panels = grid_of_axes(len(found), 5, (2.4, 2.3))
    for ax, (name, by_model) in zip(panels.flat, found.items(), strict=False):
        for model, (colour, style) in looks.items():
            curve = by_model.get(model, {})
            ax.plot(list(curve), list(curve.values()), style, color=colour, ms=3.5, lw=1.5, label=model)
        ax.set(xscale="log", yscale="log")
        ax.set_title(name.removeprefix("reg-"), fontsize=9)
        plain_log(ax.yaxis)
        ax.set_xticks(sorted({width for curve in by_model.values() for width in curve}))
        ax.xaxis.set_major_formatter("{x:g}")
        ax.minorticks_off()
        ax.tick_params(labelsize=7)
        ax.spines[["top", "right"]].set_visible(False)
    figure.supxlabel("components S", fontsize=9)
    figure.supylabel("test error / variance", fontsize=9)
    handles, labels = panels.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4, frameon=False, fontsize=9)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def summarise(given: argparse.Namespace) -> None:
    records = read_records(given.out)
    if not records:
        raise SystemExit(f"{given.out} holds no records")
    found = {name: models for name, models in curves(records).items() if set(models) == set(MODELS)}
    at = READ_AT if READ_AT in given.widths else max(given.widths)
    text = table(found, at)
    given.out.with_suffix(".md").write_text(text + "\n", encoding="utf-8")
    seeds = len({one["seed"] for one in records})
    ours = sum(curve["refined"][min(given.widths)] <= curve["plain"][max(given.widths)] for curve in found.values())
    summary = {"sets": len(found), "seeds": seeds, "rows": max(one["rows"] for one in records)}
    summary |= {"at": at, "leverage_beats_plain": sum(c["leverage"][at] < c["plain"][at] for c in found.values())}
    summary |= {"narrow": min(given.widths), "wide": max(given.widths), "narrow_refined_beats_wide_plain": ours}
    given.out.with_suffix(".json").write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
    draw(found, given.picture)
    print(text)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="+", default=list(SETS))
    parser.add_argument("--rows", type=int, default=6000, help="at most so many rows of a set")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--widths", type=int, nargs="+", default=list(WIDTHS))
    parser.add_argument("--minutes", type=float, default=np.inf, help="start no fit after so many minutes")
    parser.add_argument("--out", type=Path, default=RESULTS, help="the file of records")
    parser.add_argument("--picture", type=Path, default=PICTURE)
    parser.add_argument("--summary", action="store_true", help="fit nothing")
    given = parser.parse_args(argv)
    begun = monotonic()
    done = {(one["set"], one["seed"], one["model"], one["width"]) for one in read_records(given.out)}
    fits = [(n, s, m, w) for s in given.seeds for n in given.sets for m in MODELS for w in given.widths]
    for fit in () if given.summary else fits:
        if fit not in done and monotonic() - begun < 60 * given.minutes:
            record = fitted(*fit, given.rows)
            with given.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")
    if given.summary or monotonic() - begun < 60 * given.minutes:
        summarise(given)


if __name__ == "__main__":
    main()
