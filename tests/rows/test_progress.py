"""How far a fit is: told on a terminal, and quiet elsewhere."""

from __future__ import annotations

import io
import logging
import re
import sys

import numpy as np
import pytest

from rflaf import RFLAFRegressor
from rflaf.rows import progress
from rflaf.rows.blocks import ArraySource
from rflaf.rows.executors import ThreadExecutor
from rflaf.rows.inputs import open_rows
from rflaf.rows.progress import PassDisplay, Watched, displays, watched

rng = np.random.default_rng(0)
X = rng.standard_normal((500, 3))
Y = np.sin(2 * X[:, 0])


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def every_pass_is_long(monkeypatch):
    monkeypatch.setattr(progress, "_LONG", 0.0)
    monkeypatch.setattr(progress, "_SHOWN_EVERY", 0.0)


class Counted(PassDisplay):
    seen: list = []  # noqa: RUF012

    def finish(self, whole):
        assert whole
        self.seen.append((self.name, self.n_done, self.n_items, self.n_rows))


def test_every_pass_is_counted_with_its_rows_and_results_are_those_of_the_executor():
    Counted.seen.clear()
    source = ArraySource(X, Y[:, None], None, 100)

    with ThreadExecutor(2) as threads:
        executor = Watched(threads, Counted)
        assert executor.reduce(source, lambda block, scratch: np.array([block.n_rows]), "count rows") == 500
        assert executor.map(range(5), abs, "sizes") == [0, 1, 2, 3, 4]
        assert executor.map([1, 2], abs) == [1, 2]
        assert executor.fold(4, 0, lambda state, step: state + step, "add") == 6
        assert executor.n_workers == 2
        assert executor.limited(1).n_workers == 1
    names, done, items, rows = zip(*Counted.seen, strict=True)
    assert names == ("count rows", "sizes", "pass over the rows", "add")
    assert done == items == (5, 5, 2, 4)
    assert rows == (500, 500, None, None)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The rows as files of every kind, with the name or file of the target."""
    pa, pq, csv = (pytest.importorskip(name) for name in ("pyarrow", "pyarrow.parquet", "pyarrow.csv"))
    folder = tmp_path_factory.mktemp("rows")
    table = pa.table({"a": X[:, 0], "b": X[:, 1], "y": Y})
    pq.write_table(table, folder / "rows.parquet", row_group_size=70)
    csv.write_csv(table, folder / "rows.csv")
    np.save(folder / "X.npy", X)
    return {
        "Parquet": (folder / "rows.parquet", "y"),
        "CSV": (folder / "rows.csv", "y"),
        "NumPy": (folder / "X.npy", Y),
    }


@pytest.mark.parametrize(
    ("kind", "looks"),
    [
        ("Parquet", [("look at every value", 500, 500, 500)]),
        ("CSV", [("look at every value", 500, None, None), ("write as numbers", 500, 500, 500)]),
        ("NumPy", [("look at targets", 500, 500, 500)]),
    ],
)
def test_the_first_look_at_files_and_rows_drawn_from_them_are_passes_too(files, kind, looks):
    Counted.seen.clear()
    opened = open_rows(*files[kind], begin=Counted)
    opened.source.with_rows(10).sample(90, rng)
    opened.close()
    assert Counted.seen == [*looks, ("draw rows", 90, 90, 90)]


def test_so_are_those_of_a_cluster():
    da = pytest.importorskip("dask.array")
    Counted.seen.clear()
    opened = open_rows(da.from_array(X, chunks=(200, 3)), da.from_array(Y, chunks=200), begin=Counted)
    opened.source.sample(90, rng)
    assert Counted.seen == [("look at every value", 3, 3, None), ("draw rows", 90, 90, 90)]


def test_more_rows_from_files_are_shown_as_those_of_a_fit(files, every_pass_is_long, capsys):
    model = RFLAFRegressor(4, directions="random", random_state=0, verbose=True)
    model.fit(*files["Parquet"])
    fitting = capsys.readouterr().err
    model.partial_fit(*files["Parquet"])
    learning = capsys.readouterr().err
    for name in ("look at every value", "draw rows", "measure the columns", "sum the normal equations"):
        assert f"[rflaf] {name}: " in fitting
    for name in ("look at every value", "sum the normal equations"):
        assert f"[rflaf] {name}: 500 rows in" in learning


def test_a_pass_that_fails_is_shown_no_longer_and_says_nothing(every_pass_is_long, caplog):
    with caplog.at_level(logging.INFO, "rflaf"), ThreadExecutor(1) as threads, displays(True) as begin:
        executor = watched(threads, begin)
        with pytest.raises(ZeroDivisionError):
            executor.map([1, 0], lambda number: 1 / number)
        assert caplog.records == []
        executor.map([1, 2], lambda number: 1 / number)
    assert "2 steps in" in caplog.text


def test_on_a_terminal_long_passes_have_a_bar_with_rows_a_second(every_pass_is_long, monkeypatch):
    pytest.importorskip("rich")
    monkeypatch.setattr(sys, "stderr", Terminal())
    RFLAFRegressor(4, directions="random", random_state=0, verbose=True).fit(X, Y)
    shown = sys.stderr.getvalue()
    assert "sum the normal equations" in shown
    assert "rows/s" in shown
    assert "solved for" in shown


def test_without_rich_a_terminal_gets_lines(every_pass_is_long, monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    for name in [name for name in sys.modules if name.partition(".")[0] == "rich"]:
        monkeypatch.setitem(sys.modules, name, None)
    RFLAFRegressor(4, directions="random", random_state=0, verbose=True).fit(X, Y)
    lines = sys.stderr.getvalue().splitlines()
    assert any("sum the normal equations: 500 rows in" in line and "rows/s" in line for line in lines)
    assert all(line.startswith("[rflaf]") for line in lines)


def test_elsewhere_there_is_no_bar_and_short_passes_say_nothing(capsys):
    RFLAFRegressor(4, directions="random", random_state=0, verbose=True).fit(X, Y)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert all(re.match(r"\[rflaf\] (drew|solved) ", line) for line in shown.err.splitlines())


def test_a_quiet_fit_is_not_watched():
    with ThreadExecutor(1) as threads, displays(False) as begin:
        assert watched(threads, begin) is threads
