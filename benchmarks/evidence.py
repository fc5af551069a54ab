"""The tables and sentences of the README and of pages in docs/ that rest on the records in docs/results.

python benchmarks/evidence.py [--check]. A table stands between ``<!-- records FILE -->`` and ``<!-- end -->``, a
sentence between ``<!-- NAME -->`` and ``<!-- end -->``. With `--check` nothing is written, and it fails where a page
differs.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "docs" / "results"
PAGES = (
    ROOT / "README.md",
    *(ROOT / "docs" / f"{name}.md" for name in ("index", "evidence", "costs", "widths", "distil", "losses")),
)
MARK = re.compile(r"(<!-- (?:records )?([\w.-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def read(name: str) -> Any:
    """The summary of some records."""
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def place(number: int) -> str:
    """A place in words, or as 21st, 22nd, 23rd and 24th."""
    if number <= 3:
        return ("first", "second", "third")[number - 1]
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def splits(summary: Any) -> str:
    """How many of the splits of a protocol there are records of."""
    seen, asked = summary["seeds"], summary["seeds_of_protocol"]
    return f"all {asked} splits" if seen >= asked else f"the first {seen} of its {asked} splits"


def srbench_sentence() -> str:
    """Ours among the published methods, in a sentence."""
    summary = read("srbench")
    ours = next(one for one in summary["standings"] if one["algorithm"] == "rflaf")
    other = next(one for one in summary["standings"] if one["algorithm"] != "rflaf")
    n_others = len(summary["standings"]) - 1
    between = f"95% interval {ours['low']:.1f} to {ours['high']:.1f}"
    return (
        f"**SRBench**, {summary['problems']} public regression problems by its own protocol ({splits(summary)} each), "
        f"beside the published results of {n_others} methods: mean rank **{ours['rank']:.1f}** by r2 ({between}), "
        f"first on {ours['first']}; the next, {other['algorithm']}, has {other['rank']:.1f}. By numbers stored it has "
        f"rank {ours['size_rank']:.1f} of {n_others + 1}: accurate and quick, not small (`rflaf bench srbench`)."
    )


def srbench_paragraph() -> str:
    """What the table of SRBench shows, and how far to trust it."""
    summary = read("srbench")
    ours = next(one for one in summary["standings"] if one["algorithm"] == "rflaf")
    places = {
        kind: place(1 + sum(one[kind] < ours[kind] for one in summary["standings"]))
        for kind in ("rank", "time_rank", "size_rank")
    }
    noise = (
        "" if summary["seeds"] >= summary["seeds_of_protocol"] else ", whose medians are noisier; the command resumes"
    )
    smallest = min(one["size"] for one in summary["standings"])
    return (
        f"Ranks are means over the {summary['problems']} problems at hand, with bootstrap intervals over the problems. "
        f"The records hold {splits(summary)} of each{noise}. Sizes are the numbers stored in a model, or the nodes of "
        f"a formula; times are seconds of training, ours on another machine than theirs. Among "
        f"{len(summary['standings'])} methods ours is {places['rank']} by mean rank in r2, {places['time_rank']} by "
        f"time and {places['size_rank']} by size: it stores {ours['size']:,.0f} numbers in the median, the smallest "
        f"formulas have {smallest:,.0f} nodes."
    )


def frontier_paragraph() -> str:
    """The rows of the frontier."""
    summary = read("frontier")
    return (
        f"All models get the same numbers; all are untuned, and the explainable boosting machine (EBM) has four outer "
        f"bags. The records hold {summary['sets']} sets with up to {summary['rows']:,} training rows each, one split, "
        f"{summary['methods']} models."
    )


def costs_sentence() -> str:
    """The largest exponents in the number of rows."""
    curves = [one for one in read("costs")["curves"] if one["axis"] == "n"]
    fit, predict = (max((o for o in curves if o["what"] == w), key=lambda o: o["exponent"]) for w in ("fit", "predict"))
    return (
        f"From {fit['from']:,} to {fit['to']:,} rows the largest exponent of a fit is {fit['exponent']:.2f} "
        f"({fit['model']}), of a prediction {predict['exponent']:.2f} ({predict['model']})."
    )


def loops_sentence() -> str:
    """How many loops reach half of their roof."""
    shares = read("loops")["loops"]
    half, in_turn = (sum(one[kind] >= 0.5 for one in shares) for kind in ("share", "in_turn"))
    return (
        f"Of {len(shares)} loops {half} reach half of their largest bound, and {in_turn} reach half of all bounds one "
        f"after the other."
    )


def widths_sentence() -> str:
    """Narrow refined models against wide plain ones."""
    summary = read("widths")
    return (
        f"**Width**: {summary['narrow']} refined components err no more than {summary['wide']} plain random ones on "
        f"{summary['narrow_refined_beats_wide_plain']} of {summary['sets']} regressions (`make bench-widths`)."
    )


def widths_paragraph() -> str:
    """The rows behind the widths."""
    summary = read("widths")
    over = "one split" if summary["seeds"] == 1 else f"means of {summary['seeds']} splits"
    return (
        f"The records hold {summary['sets']} regressions with up to {summary['rows']:,} training rows, {over} each. "
        f"With {summary['at']} components leverage sampling errs less than plain sampling on "
        f"{summary['leverage_beats_plain']} of them."
    )


def frontier_sentence() -> str:
    """How many sets ours owns at two budgets."""
    summary = read("frontier")
    owned = {
        budget: sum(method.startswith("rflaf") for method in by_set.values())
        for budget, by_set in summary["owners"].items()
    }
    n_sets = summary["sets"]
    return (
        f"**The frontier**, {n_sets} regressions, {summary['methods']} models: with 0.3 microseconds a row to spend, "
        f"the lowest error is ours on {owned['0.3']} of {n_sets}, with 10 microseconds on {owned['10']} of {n_sets} "
        f"(`make bench-frontier`)."
    )


def speed_sentence() -> str:
    """What a fit and a prediction cost, beside two libraries of boosted trees."""
    summary = read("frontier")
    ours, *others = (summary["medians"][name] for name in ("rflaf, 100", "XGBoost, 100", "LightGBM, 100"))
    costs = ", ".join(
        f"{name} with 100 trees {one['batch_us']:.1f} and {one['row_us']:.0f}"
        for name, one in zip(("XGBoost", "LightGBM"), others, strict=True)
    )
    return (
        f"**Speed**, medians over the same sets on one thread: 100 components are fitted to {summary['rows']:,} rows "
        f"in {ours['fit']:.1f} s; a row takes {ours['batch_us']:.1f} microseconds in a batch and {ours['row_us']:.0f} "
        f"alone ({costs}; `make bench-frontier`)."
    )


def demo_sentence() -> str:
    """The narrowest model of the demonstration beside boosted trees and the noise."""
    found = read("demo")
    errors = found["errors"]
    return (
        f"On {found['rows']:,} rows ten components err by {errors['rflaf, 10']:.3f} of the variance, where the noise "
        f"alone has {found['noise']:.3f}, boosted trees have {errors['boosted trees, 100']:.3f} and ten random Fourier "
        f"features {errors['random Fourier features, 10']:.2f} (`python benchmarks/demonstration.py`)."
    )


def tables_sentence() -> str:
    """Mean ranks on real tables, ours and the next best, kind by kind."""
    summary = read("tables")
    parts = []
    for name, kind in summary["kinds"].items():
        ours = kind["methods"]["rflaf"]["rank"]
        rank, other = min((one["rank"], method) for method, one in kind["methods"].items() if method != "rflaf")
        parts.append(f"**{ours:.2f}** for {name} ({other} {rank:.2f})")
    n_methods = len(kind["methods"])
    return (
        f"**Real tables**, {summary['tables']} as people keep them, untuned: mean rank among {n_methods} methods "
        f"{', '.join(parts[:-1])} and {parts[-1]}; the others are LightGBM with 100 and 1000 trees "
        f"(`python benchmarks/table_ranks.py`)."
    )


def tables_paragraph() -> str:
    """How the tables were split and fitted."""
    summary = read("tables")
    splits = "one split" if summary["splits"] == 1 else f"{summary['splits']} splits"
    return (
        f"The records hold {summary['tables']} tables, {splits} each: two thirds of the rows to fit, 100 components, "
        f"one thread, categories given to the others as their own."
    )


SENTENCES = {
    "tables-sentence": tables_sentence,
    "tables-paragraph": tables_paragraph,
    "srbench-sentence": srbench_sentence,
    "srbench-paragraph": srbench_paragraph,
    "frontier-sentence": frontier_sentence,
    "frontier-paragraph": frontier_paragraph,
    "speed-sentence": speed_sentence,
    "demo-sentence": demo_sentence,
    "costs-sentence": costs_sentence,
    "loops-sentence": loops_sentence,
    "widths-sentence": widths_sentence,
    "widths-paragraph": widths_paragraph,
}


def text_of(name: str) -> str:
    """What stands at a mark."""
    return SENTENCES[name]() if name in SENTENCES else (RESULTS / name).read_text(encoding="utf-8").strip()


def filled(page: str) -> str:
    """A page with all marks filled from the records."""
    return MARK.sub(lambda mark: f"{mark[1]}{text_of(mark[2])}\n{mark[3]}", page)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args(argv)
    for path in PAGES:
        page = path.read_text(encoding="utf-8")
        if given.check and filled(page) != page:
            sys.exit(f"{path.name} does not say what the records say: run python benchmarks/evidence.py")
        path.write_text(filled(page), encoding="utf-8")
        print(f"{path.relative_to(ROOT)}: {len(MARK.findall(page))} places from the records")


if __name__ == "__main__":
    main()
