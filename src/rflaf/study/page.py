"""The tables of ``docs/paper.md`` that come from the records beside it: ``python -m rflaf.study.page docs``.

A table stands between ``<!-- table NAME -->`` and ``<!-- end -->``; what was between them is replaced.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from rflaf.errors import InvalidParameterError

from . import archive, paired
from .paired import Difference
from .regimes import REGIMES
from .result_tables import markdown_table, words
from .trials import Record

SHIPPED = ("placebo", "pools", "regimes", "quick", "exact")
_SHOWN = (("leverage", "plain"), ("placebo", "plain"), ("leverage", "placebo"), ("without_replacement", "leverage"))
_MARK = re.compile(r"(<!-- table ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def placebo_table(records: Sequence[Record]) -> str:
    """Return means of plain, leverage and placebo, and paired differences, by data, protocol and width."""
    found: dict[tuple[str, bool, int], dict[tuple[str, str], Difference]] = {}
    for one in paired.differences([record for record in records if record.trial.protocol in ("paper", "converged")]):
        key = one.data, one.protocol == "converged", one.width
        found.setdefault(key, {})[one.scheme, one.against] = one
    head = [
        "data", "protocol", "S", "plain", "leverage", "placebo", *(f"{words(a)} - {b}" for a, b in _SHOWN), "seeds",
    ]  # fmt: skip
    rows = []
    for (data, converged, width), by_pair in sorted(found.items()):
        leverage, placebo = by_pair["leverage", "plain"], by_pair["placebo", "plain"]
        means = [f"{value:.4f}" for value in (leverage.base, leverage.value, placebo.value)]
        cells = [difference_cell(by_pair[pair]) for pair in _SHOWN]
        protocol = "converged" if converged else "paper"
        rows.append([data, protocol, str(width), *means, *cells, str(leverage.seeds)])
    return markdown_table(head, rows)


def difference_cell(one: Difference) -> str:
    """Return a difference and its interval; bold if the interval leaves out zero."""
    text = f"{one.mean:+.4f} [{one.low:+.4f}, {one.high:+.4f}]"
    return f"**{text}**" if one.is_clear else text


def pools_table(records: Sequence[Record]) -> str:
    """Return means and paired differences by data, protocol, size of the pool and width."""
    found: dict[tuple[str, str, int, int], dict[tuple[str, str], Difference]] = {}
    for one in paired.differences(records, pairs=_SHOWN[:3]):
        found.setdefault((one.data, one.protocol, one.pool, one.width), {})[one.scheme, one.against] = one
    head = [
        "data",
        "protocol",
        "pool",
        "S",
        "plain",
        "leverage",
        "placebo",
        *(f"{a} - {b}" for a, b in _SHOWN[:3]),
        "seeds",
    ]
    rows = []
    for (data, protocol, pool, width), by_pair in sorted(found.items()):
        leverage, placebo = by_pair["leverage", "plain"], by_pair["placebo", "plain"]
        means = [f"{value:.4f}" for value in (leverage.base, leverage.value, placebo.value)]
        cells = [difference_cell(by_pair[pair]) for pair in _SHOWN[:3]]
        rows.append([data, protocol, f"{pool:,}", str(width), *means, *cells, str(leverage.seeds)])
    return markdown_table(head, rows)


def regimes_table(records: Sequence[Record]) -> str:
    """Return the spread of the scores and the paired change of the test error by leverage sampling, per width."""
    return _changes(records, ("leverage", "plain"))


def regimes_placebo_table(records: Sequence[Record]) -> str:
    """Return the same of leverage sampling against equal probabilities, both with replacement."""
    return _changes(records, ("leverage", "placebo"))


def _changes(records: Sequence[Record], pair: tuple[str, str]) -> str:
    own = [record for record in records if record.trial.protocol == "regimes"]
    found = {(one.data, one.width): one for one in paired.differences(own, pairs=[pair])}
    widths = sorted({width for _, width in found})
    head = ["setting", "spread", *(f"S = {width}" for width in widths), "seeds"]
    rows = []
    for name, regime in REGIMES.items():
        ones = [found[name, width] for width in widths if (name, width) in found]
        if ones:
            rows.append([regime.words, f"{ones[0].spread:.1f}", *map(change_cell, ones), str(ones[0].seeds)])
    return markdown_table(head, rows)


def change_cell(one: Difference) -> str:
    """Return a relative change and its interval; bold if the interval leaves out zero."""
    change, low, high = (float(value or 0.0) for value in (one.change, one.change_low, one.change_high))
    text = f"{change:+.0%} [{low:+.0%}, {high:+.0%}]"
    return f"**{text}**" if low > 0 or high < 0 else text


def cost_table(records: Sequence[Record]) -> str:
    """Return the mean processor seconds of a pool and of a fit, by data, protocol and width; all schemes together."""
    widths = sorted({record.trial.width for record in records})
    rows = []
    for data, protocol in sorted({(record.trial.data, record.trial.protocol) for record in records}):
        own = [record for record in records if (record.trial.data, record.trial.protocol) == (data, protocol)]
        pool = np.mean([record.pool_seconds for record in own if record.trial.pool])
        fits = ([record.fit_seconds for record in own if record.trial.width == width] for width in widths)
        rows.append([data, protocol, f"{pool:.0f}", *(f"{np.mean(fit):.1f}" if fit else "" for fit in fits)])
    return markdown_table(["data", "protocol", "pool", *(f"S = {width}" for width in widths)], rows)


def share_table(records: Sequence[Record]) -> str:
    """Return the number of trials and their processor seconds, pools apart, by protocol and data, and in all."""
    kinds: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        kinds.setdefault((record.trial.protocol, record.trial.data), []).append(record)
    rows = [[*kind, str(len(own)), *map("{:.0f}".format, _seconds(own))] for kind, own in sorted(kinds.items())]
    total = ["all", "", str(len(records)), *map("{:.0f}".format, _seconds(records))]
    return markdown_table(["protocol", "data", "trials", "fits", "pools"], [*rows, total])


def _seconds(records: Sequence[Record]) -> tuple[float, float]:
    """Return the seconds of all fits and of their pools, each counted once."""
    pools = {record.trial.group: record.pool_seconds for record in records}
    return sum(record.fit_seconds for record in records), sum(pools.values())


TABLES: dict[str, tuple[str, Callable[[Sequence[Record]], str]]] = {  # name -> (shipped records, table)
    "placebo": ("placebo", placebo_table),
    "pools": ("pools", pools_table),
    "regimes": ("regimes", regimes_table),
    "regimes-placebo": ("regimes", regimes_placebo_table),
    "cost": ("placebo", cost_table),
    "share": ("quick", share_table),
}


def refresh(text: str, records: dict[str, Sequence[Record]]) -> str:
    """Return a page with its marked tables made anew from the shipped records."""

    def table(match: re.Match[str]) -> str:
        if match[2] not in TABLES:
            rule = f"a marked table must be one of {', '.join(TABLES)}"
            raise InvalidParameterError(rule, match[2], "Is it misspelt?")
        name, make = TABLES[match[2]]
        return f"{match[1]}\n{make(records[name])}\n\n{match[3]}"

    return _MARK.sub(table, text)


def shipped(docs: Path) -> dict[str, Sequence[Record]]:
    """Return the records beside the documentation, by name."""
    return {name: archive.unpack(docs / "results" / f"{name}.jsonl.gz") for name in SHIPPED}


def main(docs: Path) -> None:
    """Rewrite the tables of ``docs/paper.md``."""
    page = docs / "paper.md"
    page.write_text(refresh(page.read_text(encoding="utf-8"), shipped(docs)), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
