"""A memory budget is a promise: arithmetic that never exceeds it, and fits that are measured against it."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from settings import limited

from rflaf import GreedySelection, LeverageSampling, RFLAFClassifier, RFLAFRegressor
from rflaf.errors import InvalidParameterError, MemoryBudgetError
from rflaf.functions.losses import Logistic
from rflaf.model import greedy
from rflaf.rows import blocks
from rflaf.rows.files import open_table
from rflaf.training import memory as memory_plan
from rflaf.training import pools, ridge_rule, specification
from rflaf.training.memory import TableSize, fit_stages, least_memory, plan_fit, plan_more
from rflaf.training.solvers.refined import search
from rflaf.training.specification import FitSpec

quick = settings(max_examples=100)
sizes = st.builds(TableSize, st.integers(2, 10**8), st.integers(1, 3000), st.integers(1, 10), st.sampled_from([4, 8]))
specs = st.builds(
    FitSpec,
    n_components=st.integers(1, 2000),
    refined=st.booleans(),
    per_component=st.booleans(),
    loss=st.sampled_from([FitSpec().loss, Logistic()]),
) | st.builds(FitSpec, n_components=st.integers(1, 500), sampling=st.sampled_from(["leverage", "greedy"]))


def planned(spec: FitSpec, table: TableSize, memory: int):
    return plan_fit(FitSpec(**{**{name: getattr(spec, name) for name in spec.__slots__}, "memory": memory}), table)


@quick
@given(specs, sizes, st.integers(0, 2**34))
def test_every_stage_of_a_plan_fits_its_memory(spec, table, more):
    memory = least_memory(spec, table) + more
    budget = planned(spec, table, memory)
    assert 64 <= budget.block_rows <= 2048
    for stage in fit_stages(spec, table):
        assert stage.bytes(budget.block_rows, budget.n_workers) + budget.left <= memory


@quick
@given(specs, sizes, st.integers(0, 2**34), st.integers(0, 2**34))
def test_more_memory_never_means_smaller_blocks(spec, table, memory, more):
    least = least_memory(spec, table)
    assert planned(spec, table, least + memory).block_rows <= planned(spec, table, least + memory + more).block_rows


@quick
@given(specs, sizes)
def test_the_refusal_names_the_smallest_budget_and_the_width_that_would_do(spec, table):
    least = least_memory(spec, table)
    with pytest.raises(MemoryBudgetError) as refusal:
        planned(spec, table, least - 1)
    assert f"at least {least} bytes" in str(refusal.value)
    assert planned(spec, table, least).block_rows >= 64
    narrower = re.search(r"n_components=(\d+) at most", str(refusal.value))
    if narrower:
        fields = {name: getattr(spec, name) for name in spec.__slots__}
        for width, fits in ((int(narrower[1]), True), (int(narrower[1]) + 1, False)):
            assert (least_memory(FitSpec(**{**fields, "n_components": width}), table) <= least - 1) is fits


def test_a_budget_too_small_is_a_value_error_with_rule_value_and_remedy():
    assert issubclass(MemoryBudgetError, InvalidParameterError)
    with pytest.raises(ValueError, match=r"memory must hold .* bytes; got 10\. Allow at least \d+ bytes"):
        planned(FitSpec(), TableSize(1000, 5, 1, 8), 10)


@quick
@given(st.integers(1, 2000), sizes, st.booleans(), st.integers(0, 2**34))
def test_rows_that_come_later_fit_their_memory(width, table, squared, more):
    with pytest.raises(MemoryBudgetError, match="memory must hold") as refusal:
        plan_more(1, table, width, squared)
    least = int(re.search(r"at least (\d+) bytes", str(refusal.value))[1])
    budget = plan_more(least + more, table, width, squared)
    assert 64 <= budget.block_rows <= 2048
    assert budget.n_workers >= 1
    assert budget.left >= 0


def test_without_a_budget_blocks_have_2048_rows():
    budget = plan_fit(FitSpec(), TableSize(10**6, 20, 1, 8))
    assert (budget.block_rows, budget.n_workers, budget.left) == (2048, None, None)


# Measured

rng = np.random.default_rng(0)
ROWS = rng.standard_normal((5000, 12))
TARGET = np.sin(2 * ROWS[:, 0]) + ROWS[:, 1] ** 2 + 0.1 * rng.standard_normal(5000)
RANDOM = {"directions": "random"}
FITS = {
    "shared": (RFLAFRegressor(60, activation="shared", **RANDOM), TARGET),
    "one a component": (RFLAFRegressor(20, **RANDOM), TARGET),
    "leverage": (RFLAFRegressor(30, activation="shared", sampling=LeverageSampling(300), **RANDOM), TARGET),
    "greedy": (RFLAFRegressor(10, sampling=GreedySelection(200), **RANDOM), TARGET),
    "a pool too large for its matrix": (RFLAFRegressor(10, sampling=GreedySelection(2000), **RANDOM), TARGET),
    "two outputs": (RFLAFRegressor(40, activation="shared", **RANDOM), np.column_stack([TARGET, TARGET**2])),
    "logistic": (RFLAFClassifier(10, alpha=1e-4, **RANDOM), TARGET > 1),
    "poisson": (RFLAFRegressor(30, loss="poisson", alpha=1e-4, **RANDOM), np.floor(np.abs(TARGET))),
    "refined": (RFLAFRegressor(8, curves=False, alpha=1e-4), TARGET[:2000]),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", FITS)
def test_a_fit_allocates_no_more_than_its_budget(name):
    model, y = FITS[name]
    X = ROWS[: len(y)]
    limited(model.set_params, n_jobs=2, random_state=0, max_iter=20, memory="auto")
    model.fit(ROWS[:1000], y[:1000])  # compiles
    with pytest.raises(MemoryBudgetError) as refusal:
        model.set_params(memory=1).fit(X, y)
    least = int(re.search(r"at least (\d+) bytes", str(refusal.value))[1])
    for memory in (least, least + 2**24):
        model.set_params(memory=memory)
        tracemalloc.start()
        try:
            model.fit(X, y)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak <= memory


def test_more_rows_allocate_no_more_than_the_budget():
    model = RFLAFRegressor(60, activation="shared", n_jobs=2, random_state=0, **RANDOM).fit(ROWS[:500], TARGET[:500])
    before = model.partial_fit(ROWS[:500], TARGET[:500]).predict(ROWS)
    with pytest.raises(MemoryBudgetError) as refusal:
        model.set_params(memory=1).partial_fit(ROWS, TARGET)
    np.testing.assert_array_equal(model.predict(ROWS), before)
    memory = int(re.search(r"at least (\d+) bytes", str(refusal.value))[1])
    tracemalloc.start()
    try:
        model.set_params(memory=memory).partial_fit(ROWS, TARGET)
        assert tracemalloc.get_traced_memory()[1] <= memory
    finally:
        tracemalloc.stop()


@pytest.fixture(scope="module")
def looked_at(tmp_path_factory):
    """Files of every kind, each with its target."""
    pa, pq, csv = (pytest.importorskip(name) for name in ("pyarrow", "pyarrow.parquet", "pyarrow.csv"))
    folder = tmp_path_factory.mktemp("looks")
    texts = np.array(["red", "green", "blue"])[rng.integers(0, 3, len(ROWS))]
    gaps = pa.array(np.where(ROWS[:, 3] > 1, np.nan, ROWS[:, 3]), from_pandas=True)
    numbers = pa.table({f"x{j}": ROWS[:, j] for j in range(12)})
    mixed = numbers.append_column("gaps", gaps).append_column("text", pa.array(texts))
    mixed = mixed.append_column("y", pa.array(TARGET)).append_column("label", pa.array(texts))
    pq.write_table(mixed, folder / "mixed.parquet", row_group_size=3000)
    csv.write_csv(mixed.select(["x0", "x1", "text", "y"]), folder / "mixed.csv")
    np.save(folder / "X.npy", ROWS)
    np.save(folder / "y.npy", TARGET)
    return {
        "Parquet": (folder / "mixed.parquet", "y", False),
        "labels": (folder / "mixed.parquet", "label", True),
        "CSV": (folder / "mixed.csv", "y", False),
        "NumPy": (folder / "X.npy", folder / "y.npy", False),
    }


POOLS = []  # buffers may outlive the work that made them, and a pool must outlive its buffers


def peak_of(work):
    """The most bytes that Python and Arrow have while files are read."""
    pa = pytest.importorskip("pyarrow")
    before, pool = pa.default_memory_pool(), pa.proxy_memory_pool(pa.default_memory_pool())
    POOLS.append(pool)
    pa.set_memory_pool(pool)
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1] + pool.max_memory()
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(before)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["Parquet", "labels", "CSV", "NumPy"])
def test_the_first_look_at_files_takes_no_more_than_the_budget(kind, looked_at):
    path, y, labels = looked_at[kind]
    with pytest.raises(MemoryBudgetError, match="the first look at the files") as refusal:
        RFLAFRegressor(memory=1).fit(path, y) if not labels else RFLAFClassifier(memory=1).fit(path, y)
    least = int(re.search(r"at least (\d+) bytes", str(refusal.value))[1])
    open_table(path, y, labels=labels).close()  # loads what is loaded once
    for memory in (least, least + 2**21, 2**27):
        assert peak_of(lambda: open_table(path, y, labels=labels, memory=memory).close()) <= memory  # noqa: B023


@pytest.mark.parametrize("kind", ["Parquet", "NumPy"])
def test_a_prediction_takes_no_more_than_the_budget_beside_its_answer(kind, looked_at, tmp_path):
    path, y, _ = looked_at[kind]
    model = RFLAFRegressor(20, random_state=0, n_jobs=2, **RANDOM).fit(path, y)
    expected = model.predict(path)
    out = np.lib.format.open_memmap(tmp_path / "out.npy", "w+", float, expected.shape)
    with pytest.raises(MemoryBudgetError, match="memory must hold the rows to predict") as refusal:
        model.set_params(memory=1).predict(path)
    least = int(re.search(r"at least (\d+) bytes", str(refusal.value))[1])
    for memory in (least, least + 2**21):
        model.set_params(memory=memory)
        out[:] = 0
        assert peak_of(lambda: model.predict(path, out=out)) <= memory
        np.testing.assert_allclose(out, expected, rtol=1e-12)


MEASURE = """
import re, sys
import numpy as np
from rflaf import RFLAFRegressor

def status(name):
    return int(re.search(name + r":\\s+(\\d+) kB", open("/proc/self/status").read())[1]) * 1024

path, memory, settings = sys.argv[1], int(sys.argv[2]), eval(sys.argv[3])
model = RFLAFRegressor(random_state=0, n_jobs=2, **settings)
model.fit(path + "/small", "y")  # compiles, and loads what is loaded once
before = status("VmRSS")
open("/proc/self/clear_refs", "w").write("5")
model.set_params(memory=memory).fit(path + "/large", "y")
print(status("VmHWM") - before)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table of 20 columns and 50 MB, and a small one."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    made = tmp_path_factory.mktemp("rows")
    rng = np.random.default_rng(0)
    for name, n_rows in (("small", 30_000), ("large", 300_000)):
        X = rng.standard_normal((n_rows, 20))
        columns = {f"x{j}": X[:, j] for j in range(20)} | {"y": np.sin(X[:, 0]) + X[:, 1] ** 2}
        (made / name).mkdir()
        pq.write_table(pa.table(columns), made / name / "rows.parquet", row_group_size=10_000)
    return made


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    "settings",
    [
        {"n_components": 100, "directions": "random", "activation": "shared"},
        {"n_components": 8, "directions": "random", "loss": "huber", "alpha": 1e-4, "max_iter": 10},
    ],
    ids=["shared", "huber"],
)
def test_the_resident_memory_of_a_fit_from_files_grows_by_no_more_than_its_budget(settings, folder):
    memory, kept_by_libraries = 48 * 2**20, 20 * 10**6  # what allocators hold back is not planned, as the docs say
    run = [sys.executable, "-W", "ignore", "-c", MEASURE, str(folder), str(memory), str(settings)]
    answer = subprocess.run(run, check=False, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
    assert int(answer.stdout) <= memory + kept_by_libraries


@pytest.mark.parametrize(
    ("name", "owner"),
    [
        ("READ_AHEAD", blocks),
        ("MOST_ROWS", blocks),
        ("JUDGED_ROWS", ridge_rule),
        ("GREEDY_ROWS", pools),
        ("LEAST_GREEDY_ROWS", pools),
        ("SEARCH_ROWS", specification),
        ("FEW_ROWS", specification),
        ("MOST_NODES", search),
        ("AHEAD", greedy),
    ],
)
def test_sizes_are_those_of_the_modules_that_use_them(name, owner):
    assert getattr(memory_plan, name) is getattr(owner, name)
    assert not [line for line in inspect.getsource(memory_plan).splitlines() if line.startswith(f"{name} =")]
