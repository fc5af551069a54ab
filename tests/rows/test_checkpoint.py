"""A fit that was killed goes on where it was, and ends at the same model."""

from __future__ import annotations

import errno
import io
import json
import subprocess
import sys
import time

import numpy as np
import pytest
from settings import limited
from sklearn.base import clone

from rflaf import LeverageSampling, RFLAFClassifier, RFLAFRegressor
from rflaf.cli.console import explain
from rflaf.errors import CheckpointWarning, InvalidParameterError
from rflaf.functions.losses import Squared
from rflaf.model.normal_equations import NormalEquations
from rflaf.model.ridge import Remedy
from rflaf.rows import checkpoint
from rflaf.rows.blocks import ArraySource, Block
from rflaf.rows.checkpoint import Journal, Recorded, fingerprint, resumed
from rflaf.rows.executors import ThreadExecutor
from rflaf.rows.packed import Packed, UnlikeError, pack, refuse_unlike, unpack
from rflaf.training.solvers.refined.recipes import Recipe

rng = np.random.default_rng(0)
X = rng.standard_normal((4200, 3))  # three blocks: a pass of one is not recorded
Y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2
RANDOM = {"directions": "random", "random_state": 0, "n_jobs": 1}


class Killed(BaseException):
    """What ends a fit in the middle."""


@pytest.fixture(autouse=True)
def everything_is_recorded(monkeypatch):
    monkeypatch.setattr(checkpoint, "_LEAST_SECONDS", 0.0)
    monkeypatch.setattr(checkpoint, "_BYTES_PER_SECOND", np.inf)


# The file


def test_values_come_back_as_they_were(tmp_path):
    equations = NormalEquations(np.eye(3) / 3, 1, 7)
    values = {
        "plain": (1, 2.5, True, None, "text", float("inf"), 2**130),
        "arrays": (np.arange(3.0), np.float32(0.1), np.asfortranarray(np.eye(2))),
        "objects": (equations, Remedy.JITTER, Recipe(0.1), Block(np.ones((1, 2)), np.zeros((1, 1)))),
        3: np.random.default_rng(0).bit_generator.state,
    }
    journal = Journal(tmp_path / "file")
    assert journal.keep("key", values, 1.0)
    back = Journal(tmp_path / "file").read("key", values)
    assert back["plain"] == values["plain"]
    for found, given in zip(back["arrays"], values["arrays"], strict=True):
        assert found.dtype == given.dtype
        assert np.isfortran(found) == np.isfortran(given)
        np.testing.assert_array_equal(found, given)
    np.testing.assert_array_equal(back["objects"][0].moments, equations.moments)
    assert back["objects"][1:3] == (Remedy.JITTER, Recipe(0.1))
    assert back["objects"][3].weight is None
    assert back[3] == values[3]
    assert type(back["arrays"][1]) is np.float32


def test_foreign_objects_are_not_recorded_and_never_made(tmp_path):
    journal = Journal(tmp_path / "file")
    assert not journal.keep("key", io.BytesIO(), 1.0)
    assert not journal.keep("key", np.array([object()]), 1.0)
    for name in ("system", "os.system", "Journal", "ndarray", "Nothing"):
        with pytest.raises(UnlikeError, match="no result of this package"):
            unpack(Packed({"data": name, "fields": {}}, []))


def test_no_module_is_imported_because_a_record_names_it():
    script = (
        "import sys\nfrom rflaf.rows.packed import Packed, unpack\n"
        "try:\n    unpack(Packed({'data': 'LemmaCount', 'fields': {}}, []))\n"
        "except ValueError as error:\n    assert 'no result of this package' in str(error)\n"
        "else:\n    raise AssertionError\n"
        "assert 'rflaf.study.measurements' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_a_record_cut_short_is_dropped_and_written_over(tmp_path):
    path = tmp_path / "file"
    journal = Journal(path)
    for number in range(3):
        journal.keep(f"{number}", np.full(10, number), 1.0)
    whole = path.read_bytes()
    for cut in (1, 100, 300):
        path.write_bytes(whole[:-cut])
        journal = Journal(path)
        assert "0" in journal
        kept = len(journal)
        assert kept < 3
        journal.keep("again", np.ones(3), 1.0)
        back = Journal(path)
        assert len(back) == kept + 1
        np.testing.assert_array_equal(back.read("again"), np.ones(3))


def test_records_that_others_replaced_do_not_pile_up(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "_MOST_DEAD", 10_000)
    journal = Journal(tmp_path / "file")
    journal.keep("first", np.arange(5), 1.0)
    for number in range(40):
        journal.keep("state", np.full(200, number), 1.0)
    assert (tmp_path / "file").stat().st_size < 20_000
    back = Journal(tmp_path / "file")
    np.testing.assert_array_equal(back.read("state"), np.full(200, 39))
    np.testing.assert_array_equal(back.read("first"), np.arange(5))
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


def test_what_is_quicker_to_make_than_to_read_is_not_recorded(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "_LEAST_SECONDS", 0.5)
    monkeypatch.setattr(checkpoint, "_BYTES_PER_SECOND", 1e8)
    journal = Journal(tmp_path / "file")
    assert not journal.keep("key", np.ones(3), 0.4)
    assert not journal.keep("key", np.ones(10**7 // 8 * 2), 0.6)
    assert journal.keep("key", np.ones(3), 0.6)


@pytest.mark.parametrize("after", [0, 100])
def test_a_full_disk_ends_the_recording_and_not_the_fit(tmp_path, monkeypatch, after):
    path = tmp_path / "file"
    journal = Journal(path)
    journal.keep("before", np.ones(3), 1.0)
    size = path.stat().st_size
    original = Journal._append

    def full(self, content):
        original(self, content[:after])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Journal, "_append", full)
    with pytest.warns(CheckpointWarning, match="No space left on device.*goes on without"):
        assert not journal.keep("key", np.ones(3), 1.0)
    assert not journal.keep("other", np.ones(3), 1.0)
    assert path.stat().st_size == size
    np.testing.assert_array_equal(Journal(path).read("before"), np.ones(3))


def test_a_fit_on_a_full_disk_gives_its_model(tmp_path, monkeypatch):
    def full(self, content):
        raise OSError(errno.ENOSPC, "No space left on device")

    expected = RFLAFRegressor(4, **RANDOM).fit(X, Y).predict(X)
    monkeypatch.setattr(Journal, "_append", full)
    with pytest.warns(CheckpointWarning):
        model = RFLAFRegressor(4, checkpoint=tmp_path / "file", **RANDOM).fit(X, Y)
    np.testing.assert_array_equal(model.predict(X), expected)
    assert list(tmp_path.iterdir()) == []


def test_a_checkpoint_that_cannot_be_removed_does_not_cost_the_model(tmp_path, monkeypatch):
    def read_only(path, missing_ok=False):
        raise OSError(errno.EROFS, "Read-only file system")

    expected = RFLAFRegressor(4, **RANDOM).fit(X, Y).predict(X)
    monkeypatch.setattr(type(tmp_path), "unlink", read_only)
    model = RFLAFRegressor(4, checkpoint=tmp_path / "file", **RANDOM).fit(X, Y)
    np.testing.assert_array_equal(model.predict(X), expected)


# Damage and forgery


def three_records(path):
    journal = Journal(path)
    for number in range(3):
        assert journal.keep(f"{number}", np.full(10, number), 1.0)
    return path.read_bytes()


@pytest.mark.slow
def test_any_changed_byte_is_refused_by_the_name_of_the_file(tmp_path):
    path = tmp_path / "file"
    whole = three_records(path)
    for at in range(len(whole)):
        for change in (1, 0x80):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ change]) + whole[at + 1 :])
            with pytest.raises(InvalidParameterError, match=r"checkpoint .*(file must be as a fit|must name a file)"):
                Journal(path)


def rewritten(path, change):
    """Write the records of a file again, each changed and with valid checksums."""
    journal, records = Journal(path), []
    with path.open("rb") as file:
        for key, (start, _) in journal._records.items():
            value = checkpoint._decode(*checkpoint._read_record(file, start, journal._end))[1]
            records.append(checkpoint._encode(key, change(key, value)))
    path.write_bytes(checkpoint._TITLE + b"".join(records))


def with_arrays(change):
    return lambda key, packed: packed if key == "0 fit" else Packed(packed.value, [change(a) for a in packed.arrays])


def with_value(old, new):
    return lambda key, packed: Packed(json.loads(json.dumps(packed.value).replace(old, new)), packed.arrays)


FORGERIES = {
    "shorter arrays": with_arrays(lambda array: array[:-1] if array.ndim else array),
    "longer arrays": with_arrays(lambda array: np.concatenate([array, array]) if array.ndim else array),
    "arrays of another kind": with_arrays(lambda array: array.astype(np.int8)),
    "arrays of one dimension": with_arrays(np.ravel),
    "arrays without columns": with_arrays(lambda array: array[..., :0]),
    "another number of outputs": with_value('"fixed": 1', '"fixed": 2'),
    "another class": with_value("ColumnMoments", "ColumnRange"),
    "a tuple for an object": with_value('"data"', '"tuple"'),
    "no arrays": lambda key, packed: packed if key == "0 fit" else Packed(packed.value, []),
    "nothing": lambda key, packed: packed if key == "0 fit" else Packed(None, []),
}


@pytest.mark.parametrize("forgery", FORGERIES)
@pytest.mark.parametrize("name", ["shared", "one a component", "refined"])
def test_forged_records_with_valid_checksums_are_refused_before_a_loop_sees_them(forgery, name, tmp_path, monkeypatch):
    if (name, forgery) == ("refined", "arrays of one dimension"):
        pytest.skip("the answers of candidates reach NumPy only, which broadcasts them")
    model, y = FITS[name]
    path = tmp_path / "file"
    model = clone(model).set_params(checkpoint=path)
    with monkeypatch.context() as patch:
        Ending(patch, 3)
        with pytest.raises(Killed):
            model.fit(X, y)
    before = path.read_bytes()
    rewritten(path, FORGERIES[forgery])
    if path.read_bytes() == before:
        pytest.skip("there is nothing of the kind to forge")
    with pytest.raises(
        InvalidParameterError, match=r"file must be as a fit of this package wrote it.* Remove the file"
    ):
        model.fit(X, y)
    assert not hasattr(model, "model_")


@pytest.mark.parametrize("odd", [np.nan, np.inf])
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_forged_numbers_that_are_none_do_not_come_out_and_the_file_is_named(odd, tmp_path, monkeypatch, capsys):
    path = tmp_path / "file"
    model = clone(FITS["one a component"][0]).set_params(checkpoint=path)
    with monkeypatch.context() as patch:
        Ending(patch, 3)
        with pytest.raises(Killed):
            model.fit(X, Y)
    cross = with_arrays(lambda array: np.full_like(array, odd) if array.ndim == 3 and array.shape[2] == 2 else array)
    rewritten(path, lambda key, packed: cross(key, packed) if "normal equations" in key else packed)
    with pytest.raises(InvalidParameterError, match="of a fitted model must be finite") as caught:
        model.fit(X, Y)
    assert f"results from the checkpoint {path}" in caught.value.__notes__[0]
    assert explain(caught.value) == 2
    assert str(path) in capsys.readouterr().err


def test_copies_of_rows_are_not_recorded(tmp_path):
    journal = Journal(tmp_path / "file")
    with ThreadExecutor(1) as threads:
        recorded = Recorded(threads, journal)
        recorded.map([1, 2], lambda item: Block(np.ones((item, 2)), np.zeros((item, 1))))
        assert len(journal) == 0
        recorded.map([1, 2], lambda item: (np.ones(item), "text", 2.0))
        assert len(journal) == 1


@pytest.mark.parametrize(
    ("found", "like"),
    [
        ((1,), (1, 2)),
        (1, "text"),
        (True, 1),
        ({"a": 1}, {"b": 1}),
        (np.zeros(3), np.zeros(4)),
        (np.zeros(3), np.zeros(3, int)),
        (np.zeros((3, 1)), np.zeros(3)),
        (Recipe(0.1), Remedy.JITTER),
        ([np.zeros(2), "text"], [np.zeros(2)]),
        (NormalEquations(np.eye(4), 2, 7), NormalEquations(np.eye(4), 1, 7)),
    ],
)
def test_values_of_another_outline_are_told_apart(found, like):
    refuse_unlike(pack(like), pack(like))
    with pytest.raises(UnlikeError, match=r"where a pass (makes|has)"):
        refuse_unlike(pack(found), pack(like))


def test_an_error_after_reading_a_checkpoint_names_it(tmp_path):
    path, source = tmp_path / "file", ArraySource(X, Y[:, None])
    with ThreadExecutor(1) as threads:
        for error in (Killed, ZeroDivisionError):

            def fail(item, error=error):
                raise error

            def run(fail=fail):
                with resumed(path, "some", source, np.random.default_rng(0), threads, True) as executor:
                    executor.map([1, 2], abs)
                    executor.map([1, 2], fail)

            with pytest.raises(error) as caught:
                run()
    assert f"results from the checkpoint {path}" in caught.value.__notes__[0]


# Fits

FITS = {
    "shared": (RFLAFRegressor(6, activation="shared", **RANDOM), Y),
    "one a component": (RFLAFRegressor(4, **RANDOM), Y),
    "leverage": (RFLAFRegressor(6, activation="shared", sampling=LeverageSampling(40), **RANDOM), Y),
    "quantile": (limited(RFLAFRegressor, 4, loss="quantile", alpha=1e-3, max_iter=40, **RANDOM), Y),
    "classes": (RFLAFClassifier(4, alpha=1e-3, **RANDOM), Y > 1),
    "refined": (RFLAFRegressor(4, curves=False, alpha=1e-4, random_state=0, n_jobs=1, loss=Squared()), Y),
}


class Ending:
    """Ends the fit when so many records were kept."""

    def __init__(self, monkeypatch, n_records):
        self.left = n_records
        original = Journal.write

        def write(journal, *arguments):
            answer = original(journal, *arguments)
            self.left -= 1
            if self.left < 0:
                raise Killed
            return answer

        monkeypatch.setattr(Journal, "write", write)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("n_records", [1, 2, 6])
@pytest.mark.parametrize("name", FITS)
def test_a_fit_that_was_ended_goes_on_to_the_same_model(name, n_records, tmp_path, monkeypatch):
    if name in ("shared", "one a component", "leverage") and n_records == 6:
        pytest.skip("has fewer passes")
    model, y = FITS[name]
    path = tmp_path / "file"
    expected = model.set_params(checkpoint=None).fit(X, y).model_.decision(X)
    model.set_params(checkpoint=path)
    with monkeypatch.context() as patch:
        Ending(patch, n_records)
        with pytest.raises(Killed):
            model.fit(X, y)
    assert len(Journal(path)) >= 2
    replayed = []
    original = Journal.read
    monkeypatch.setattr(Journal, "read", lambda *about: replayed.append(about[1]) or original(*about))
    model.fit(X, y)
    assert len(replayed) >= 2
    np.testing.assert_array_equal(model.model_.decision(X), expected)
    assert not path.exists()


def test_what_was_recorded_is_not_computed_again(tmp_path):
    path = tmp_path / "file"
    source = ArraySource(X, Y[:, None], None, 100)
    seen = []

    def count(block, scratch):
        seen.append(block.n_rows)
        return np.array([float(block.n_rows)])

    with ThreadExecutor(1) as threads:
        for _ in range(2):
            recorded = Recorded(threads, Journal(path))
            assert recorded.reduce(source, count) == 4200
            assert recorded.map([1, 2], abs) == [1, 2]
            assert recorded.fold(3, 0, lambda state, step: state + step) == 3
            assert recorded.limited(1).n_workers == recorded.n_workers == 1
    assert len(seen) == 42 + 1  # the first block again: what a result must look like


def test_steps_that_were_done_are_not_done_again(tmp_path):
    done = []

    def advance(state, step):
        if step == 3 and len(done) == 3:
            raise Killed
        done.append(step)
        return 10 * state + step

    with ThreadExecutor(1) as threads:
        with pytest.raises(Killed):
            Recorded(threads, Journal(tmp_path / "file")).fold(5, 0, advance)
        done.append("again")
        assert Recorded(threads, Journal(tmp_path / "file")).fold(5, 0, advance) == 1234
    assert done == [0, 1, 2, "again", 3, 4]


def test_a_fit_without_a_seed_takes_up_that_of_the_fit_that_was_ended(tmp_path, monkeypatch):
    path = tmp_path / "file"
    model = RFLAFRegressor(4, directions="random", checkpoint=path)
    with monkeypatch.context() as patch:
        Ending(patch, 3)
        with pytest.raises(Killed):
            model.fit(X, Y)
    states = []
    with ThreadExecutor(1) as threads:
        for _ in range(2):
            generator = np.random.default_rng()
            open_file = resumed(path, model._determined_by(), ArraySource(X, Y[:, None]), generator, threads, False)
            open_file.__enter__()
            states.append(generator.bit_generator.state)
    assert states[0] == states[1]


def test_a_checkpoint_of_another_fit_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "file"
    model = RFLAFRegressor(4, checkpoint=path, **RANDOM)
    with monkeypatch.context() as patch:
        Ending(patch, 3)
        with pytest.raises(Killed):
            model.fit(X, Y)
    whole = path.read_bytes()
    for changed, rows, found in (
        ({"n_components": 5}, X, "one of other parameters"),
        ({}, X + 1, "one of other rows"),
        ({"random_state": 1}, X, "one of another random_state"),
    ):
        model.set_params(**{"n_components": 4, "random_state": 0, **changed})
        with pytest.raises(InvalidParameterError, match=f"must be one of this fit; got '{found}'"):
            model.fit(rows, Y)
        assert not hasattr(model, "model_")
        assert path.read_bytes() == whole
    model.set_params(n_jobs=2, n_components=4, random_state=0).fit(X, Y)  # the number of threads does not matter


def test_paths_that_cannot_be_checkpoints_are_refused(tmp_path):
    (tmp_path / "other").write_text("something of yours\n")
    for path, rule in (
        (tmp_path / "other", "a file of this package and version, or none"),
        (tmp_path, "a file in a folder that is there"),
        (tmp_path / "no" / "file", "a file in a folder that is there"),
    ):
        with pytest.raises(InvalidParameterError, match=rule):
            RFLAFRegressor(4, checkpoint=path, **RANDOM).fit(X, Y)
    assert (tmp_path / "other").read_text() == "something of yours\n"
    with pytest.raises(InvalidParameterError, match="checkpoint must be None or the path of a file; got 3"):
        RFLAFRegressor(4, checkpoint=3, **RANDOM).fit(X, Y)


def test_rows_are_told_apart_by_what_they_hold():
    with ThreadExecutor(1) as threads:
        marks = {
            fingerprint(ArraySource(rows, y, weight), threads)
            for rows, y, weight in (
                (X, Y[:, None], None),
                (X[::-1], Y[:, None], None),
                (X, -Y[:, None], None),
                (X, Y[:, None], np.ones(4200)),
            )
        }
        assert len(marks) == 4
        assert fingerprint(ArraySource(X.copy(), Y[:, None]), threads) in marks


FIT = """
import sys
import numpy as np
from rflaf import RFLAFRegressor
from rflaf.rows import checkpoint
checkpoint._LEAST_SECONDS = 0.0
path, file, out, slow = sys.argv[1:]
if slow == "slow":  # so that there is time to kill it
    import time
    from rflaf.training import algorithm1
    fit, algorithm1.fit_per_component = algorithm1.fit_per_component, lambda *about: (time.sleep(600), fit(*about))
model = RFLAFRegressor(4, directions="random", alpha=1e-3, random_state=0, checkpoint=file).fit(path, "y")
np.save(out, model.predict(path))
"""


@pytest.mark.slow
def test_a_fit_from_files_that_was_killed_goes_on_in_another_process(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table({"a": X[:, 0], "b": X[:, 1], "y": Y}), tmp_path / "rows.parquet", row_group_size=100)
    file = tmp_path / "file"

    def command(checkpoint, out, slow):
        return [sys.executable, "-c", FIT, *map(str, (tmp_path / "rows.parquet", checkpoint, out, slow))]

    process = subprocess.Popen(command(file, tmp_path / "0.npy", "slow"))
    try:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and not (file.exists() and len(Journal(file)) >= 2):
            time.sleep(0.05)
    finally:
        process.kill()
        process.wait()
    assert len(Journal(file)) >= 2
    subprocess.run(command(file, tmp_path / "1.npy", "quick"), check=True)
    unbroken = RFLAFRegressor(4, directions="random", alpha=1e-3, random_state=0).fit(tmp_path / "rows.parquet", "y")
    np.testing.assert_array_equal(np.load(tmp_path / "1.npy"), unbroken.predict(tmp_path / "rows.parquet"))
    assert not file.exists()
    assert not (tmp_path / "0.npy").exists()


def test_sums_of_a_pass_are_recorded_whole(tmp_path):
    from rflaf.functions.bases import BSplineBasis
    from rflaf.functions.densities import Gaussian, draw
    from rflaf.model.features import compile_map

    basis = BSplineBasis(6)
    features = compile_map(
        draw(Gaussian(), 3, 4, np.random.default_rng(0)), basis.pieces(), np.ones((1, 6)), np.float64
    )
    source = ArraySource(X, Y[:, None], None, 100)
    with ThreadExecutor(1) as threads:
        sums = [features.sum_equations(source, Recorded(threads, Journal(tmp_path / "file"))) for _ in range(2)]
    np.testing.assert_array_equal(sums[0].moments, sums[1].moments)
    assert (sums[0].n_rows, sums[0].precision) == (sums[1].n_rows, sums[1].precision)
