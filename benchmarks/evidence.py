"""The tables of docs/evidence.md and the numbers of the README from the records in docs/results.

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

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "docs" / "results"
PAGES = (ROOT / "README.md", ROOT / "docs" / "evidence.md")
MARK = re.compile(r"(<!-- (?:records )?([\w.-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def srbench_sentence() -> str:
    """Ours among the published methods, in a sentence."""
    summary = json.loads((RESULTS / "srbench.json").read_text())
    ours = next(one for one in summary["standings"] if one["algorithm"] == "rflaf")
    other = next(one for one in summary["standings"] if one["algorithm"] != "rflaf")
    n_others = len(summary["standings"]) - 1
    splits = f"the first {summary['seeds']} of its {summary['seeds_of_protocol']} splits each"
    between = f"95% interval {ours['low']:.1f} to {ours['high']:.1f}"
    return (
        f"**SRBench**, {summary['problems']} public regression problems by its own protocol ({splits}), beside the "
        f"published results of {n_others} methods: mean rank **{ours['rank']:.1f}** by r2 ({between}), first on "
        f"{ours['first']}; the next, {other['algorithm']}, has {other['rank']:.1f} (`rflaf bench srbench`)."
    )


def frontier_sentence() -> str:
    """How many sets ours owns at two budgets."""
    summary = json.loads((RESULTS / "frontier.json").read_text())
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


def text_of(name: str) -> str:
    """What stands at a mark."""
    sentences = {"srbench-sentence": srbench_sentence, "frontier-sentence": frontier_sentence}
    return sentences[name]() if name in sentences else (RESULTS / name).read_text().strip()


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
