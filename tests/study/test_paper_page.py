"""The page about the paper shows what the shipped records hold."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from rflaf.errors import InvalidParameterError
from rflaf.study import archive, experiments, page

DOCS = Path(__file__).parent.parent.parent / "docs"


@pytest.fixture(scope="module")
def shipped():
    return page.shipped(DOCS)


def test_the_tables_of_the_page_are_those_of_the_records(shipped):
    text = (DOCS / "paper.md").read_text(encoding="utf-8")
    assert text.count("<!-- table ") == len(page.TABLES)
    assert page.refresh(text, shipped) == text


@pytest.mark.parametrize("name", page.SHIPPED)
def test_shipped_records_have_their_checksum_and_versions(shipped, name):
    note = json.loads((DOCS / "results" / f"{name}.json").read_text())
    packed = (DOCS / "results" / f"{name}.jsonl.gz").read_bytes()
    assert hashlib.sha256(packed).hexdigest() == note["sha256"]
    assert note["records"] == len(shipped[name])
    assert {"study", "numpy", "scipy", "numba", "python"} <= set(note["environments"][0])
    assert len({record.trial for record in shipped[name]}) == len(shipped[name])


def test_a_table_made_of_records_has_every_cell(shipped):
    rows = page.regimes_table(shipped["regimes"]).splitlines()[2:]
    assert len(rows) == 8
    trials = [record.trial for record in shipped["placebo"]]
    cells = {(trial.data, trial.protocol, trial.width) for trial in trials}
    assert len(page.placebo_table(shipped["placebo"]).splitlines()) == 2 + len(cells)
    pools = {(trial.data, trial.pool, trial.width) for trial in (one.trial for one in shipped["pools"]) if trial.pool}
    assert len(page.pools_table(shipped["pools"]).splitlines()) == 2 + len(pools)
    assert len(page.cost_table(shipped["placebo"]).splitlines()) == 2 + 2 * 2


def test_the_quick_effort_is_shipped_whole_and_its_seconds_add_up(shipped):
    names = [name for name in experiments.names() if experiments.read(name).by_default]
    trials = {trial for name in names for trial in experiments.read(name).trials("quick")}
    assert {record.trial for record in shipped["quick"]} == trials
    *rows, total = [line.split("|")[3:6] for line in page.share_table(shipped["quick"]).splitlines()[2:]]
    sums = np.array(rows, float).sum(axis=0)
    np.testing.assert_allclose(sums, np.array(total, float), atol=0.5 * len(rows))
    assert sums[0] == len(trials)


def test_the_command_rewrites_a_page_and_refuses_unknown_tables(tmp_path, shipped):
    (tmp_path / "results").mkdir()
    for name, records in shipped.items():
        archive.pack(records, tmp_path / "results" / f"{name}.jsonl.gz")
    (tmp_path / "paper.md").write_text("a\n<!-- table regimes -->\nold\n<!-- end -->\nb\n")
    page.main(tmp_path)
    text = (tmp_path / "paper.md").read_text()
    assert text == f"a\n<!-- table regimes -->\n\n{page.regimes_table(shipped['regimes'])}\n\n<!-- end -->\nb\n"
    with pytest.raises(InvalidParameterError, match=r"must be one of placebo, pools, regimes, .*; got 'regime'"):
        page.refresh("<!-- table regime -->\n<!-- end -->", shipped)
