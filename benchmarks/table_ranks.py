"""Ours beside boosted trees on real tables, from the records of breadth.py: for the README and docs/evidence.md.

    python benchmarks/breadth.py --sets all --kinds tables --seeds 2 \
        --methods ours lightgbm-100 lightgbm-1000 catboost --out docs/results/tables.jsonl
    python benchmarks/table_ranks.py [--records FILE] [--out FOLDER]

Tables go in as they are, with text, gaps and dates; the others get categories as their own. Everything is untuned. The
summary (.json) and the tables (.md) are written beside the records.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from breadth import read_records
from breadth_models import CONSTANT, OURS
from breadth_summary import Comparison, comparisons, standings
from markdown_tables import markdown_table

RECORDS = Path(__file__).parent.parent / "docs" / "results" / "tables.jsonl"
NAMES = {"lightgbm-100": "LightGBM, 100 trees", "lightgbm-1000": "LightGBM, 1000 trees", "catboost": "CatBoost"}
KINDS = {  # task and measure, in words
    ("regression", "RMSE"): "numbers, by RMSE",
    ("binary", "log-loss"): "two classes, by log-loss",
    ("binary", "1 - AUC"): "two classes, by AUC",
    ("multi-class", "log-loss"): "more classes, by log-loss",
}


def by_kind(found: Sequence[Comparison]) -> dict[str, list[Comparison]]:
    """The comparisons of every kind of task and measure that there are, in words."""
    groups = {name: [one for one in found if (one.task, one.measure) == key] for key, name in KINDS.items()}
    return {name: group for name, group in groups.items() if group}


def summary_of(found: Sequence[Comparison], ours: str) -> dict[str, Any]:
    """Mean ranks, wins and mean ratios to the best of every method, by kind, and the sets that ours loses."""
    methods = [method for method in found[0].outcomes if method != CONSTANT]
    kinds = {}
    for name, group in by_kind(found).items():
        kinds[name] = {
            "sets": len(group),
            "methods": {
                "rflaf" if one.method == ours else NAMES.get(one.method, one.method): {
                    "rank": round(one.rank, 3),
                    "wins": one.wins,
                    "to_best": round(one.relative, 4),
                    "fit": round(one.fit_seconds, 3),
                }
                for one in standings(group, methods)
            },
            "lost": {one.set: _lost(one, methods, ours) for one in group if _lost(one, methods, ours)},
        }
    return {"tables": len({one.set for one in found}), "splits": found[0].splits, "kinds": kinds}


def _lost(one: Comparison, methods: Sequence[str], ours: str) -> list[Any]:
    """The best of the others and our loss as a multiple of its; nothing where ours is as good."""
    best = min((method for method in methods if method != ours), key=lambda method: one.outcomes[method].loss)
    ratio = one.outcomes[ours].loss / one.outcomes[best].loss
    return [NAMES.get(best, best), round(ratio, 3)] if ratio > 1 else []


def tables_of(summary: dict[str, Any]) -> str:
    """Mean rank, wins and ratio to the best by kind, and the losses that are more than one per cent."""
    names = list(summary["kinds"])
    first = summary["kinds"][names[0]]["methods"]
    rows = []
    for method in first:
        cells = [summary["kinds"][name]["methods"][method] for name in names]
        shown = [f"{cell['rank']:.2f} ({cell['wins']}; {cell['to_best']:.3f})" for cell in cells]
        rows.append([f"**{method}**" if method == "rflaf" else method, *shown])
    head = [f"{name}: {summary['kinds'][name]['sets']} tables" for name in names]
    lost = [
        [f"{table.removeprefix('tables/')}, {name.split(', ')[1]}", best, f"{100 * (ratio - 1):.1f} %"]
        for name in names
        for table, (best, ratio) in summary["kinds"][name]["lost"].items()
        if ratio > 1.01
    ]
    ranks = markdown_table(["mean rank (first on; mean loss to the best)", *head], rows)
    return f"{ranks}\n\n{markdown_table(['table', 'best', 'our loss is higher by'], lost)}\n"


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=Path, default=RECORDS)
    parser.add_argument("--out", type=Path, help="the folder of what is written; that of the records unless given")
    given = parser.parse_args(argv)
    path = given.records
    records = read_records(path)
    found, unfinished = comparisons(records)
    if unfinished:
        raise SystemExit(f"not every method has a record on {', '.join(unfinished)}: run breadth.py again")
    (ours,) = {record["method"] for record in records if record["contestant"] == OURS}
    summary = summary_of(found, ours)
    written = (given.out or path.parent) / path.name
    written.with_suffix(".json").write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
    written.with_suffix(".md").write_text(tables_of(summary), encoding="utf-8")
    print(tables_of(summary))


if __name__ == "__main__":
    main()
