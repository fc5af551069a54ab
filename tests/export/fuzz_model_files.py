"""Damaged and forged model files: every one must end in `UnreadableModelFile` or in a model that predicts.

No code may run and no file may cost more than 200 MB or 20 seconds of the processor. A short run is part of the tests;
a long one is

    python tests/export/fuzz_model_files.py 100000
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import gzip
import json
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as parquet
from safetensors.numpy import save as pack

import rflaf
from rflaf.errors import MemoryBudgetError, UnreadableModelFile
from rflaf.export import model_file as persistence
from rflaf.export.model_file import envelope
from rflaf.functions import bases
from rflaf.rows.tables import TableEncoding

try:
    import resource
except ImportError:  # Windows
    resource = None

MOST_MEGABYTES, MOST_SECONDS = 200, 20
_ALSO_HALVED = (0, 1, 9, 10, 12)  # models whose files for predictions are seeds too
FORBIDDEN = {"exec", "compile", "import", "os.system", "os.exec", "os.posix_spawn", "subprocess.Popen",
             "pickle.find_class", "marshal.loads", "ctypes.dlopen", "socket.connect"}  # fmt: skip
Mutation = Callable[[bytes, np.random.Generator], bytes]


def seeds() -> list[bytes]:
    """Small files of every kind of model, with and without the encoding of a table that has gaps."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((220, 3))
    y = np.abs(X[:, 0]) + X[:, 1]
    labels = np.where(X[:, 2] > 0.5, "c", np.where(X[:, 0] > 0, "a", "b"))
    table = pa.table(
        {
            "x": X[:, 0],
            "level": rng.choice(["low", "mid", "high", ""], 220),
            "day": [f"2024-{1 + i % 12:02d}-{1 + i % 28:02d}" for i in range(220)],
            "y": y,
        }
    )
    gaps = {
        "x": [None if i % 9 == 0 else value for i, value in enumerate(X[:, 0])],
        "side": rng.choice(["left", "right"], 220),
        "at": [None if i % 7 == 0 else f"2024-03-{1 + i % 28:02d} 1{i % 9}:30" for i in range(220)],
        "always": ["same"] * 220,
    }
    mixed = pa.table({name: table[name] for name in ("level", "y")} | gaps | {"label": labels})
    weights = {"a": 1.0, "b": 2.0, "c": 1.0}
    narrow = {"n_components": 3, "directions": "random", "random_state": 0}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        parquet.write_table(mixed, path)
        from_file = [
            rflaf.RFLAFRegressor(**narrow).fit(path, "y"),
            rflaf.RFLAFClassifier(**narrow).fit(path, "label"),
        ]
    models = [
        rflaf.RFLAFRegressor(4, curves=True, random_state=0).fit(X, y),
        rflaf.RFLAFRegressor.paper(4, pool_size=8, random_state=0).fit(X, y),
        rflaf.RFLAFRegressor(3, directions="random", basis=bases.RBFBasis(5), density="student_t", bandwidth=1.0,
                             loss="quantile", random_state=0).fit(X, y),
        rflaf.RFLAFClassifier(3, directions="random", class_weight=weights, random_state=0)
        .partial_fit(X, labels, list("abc")),
        rflaf.RFLAFRegressor(3, directions="random", basis="polynomial", scale=False, random_state=0).fit(X, y),
        rflaf.RFLAFRegressor(3, directions="random", basis="tanh", random_state=0).fit(X, y),
        rflaf.RFLAFRegressor(**narrow).fit(table, "y"),
        *from_file,
        *_newer(X, y, labels),
    ]  # fmt: skip
    made_up = {"data": "made up", "metrics": {"r2": 0.5}}
    return [
        _saved(model, provenance=made_up, dtype=dtype)
        for number, model in enumerate(models)
        for dtype in (("float64", "float32") if number in _ALSO_HALVED else ("float64",))
    ]


def _saved(model: object, **how: object) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        persistence.save(model, Path(folder) / "model", **how)
        return (Path(folder) / "model").read_bytes()


def _newer(X: np.ndarray, y: np.ndarray, labels: np.ndarray) -> list:
    """Models of format 4: levels of categories, classes, intervals, limits, quantiles and their losses."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(X, columns=list("abc"))
    frame["town"] = rng.choice(["Ulm", "Bonn", "Kiel", None], len(X))
    made = {"n_components": 3, "random_state": 0, "n_jobs": 1}
    soft = np.exp(X) / np.exp(X).sum(axis=1, keepdims=True)
    return [
        rflaf.RFLAFRegressor(**made).fit(frame, y).calibrate(frame, y),
        rflaf.RFLAFClassifier(**made).fit(frame, labels).calibrate(frame, labels),
        rflaf.RFLAFRegressor(6, random_state=0, monotone={"a": 1}, interactions=[("a", "b")]).fit(frame, y),
        rflaf.RFLAFRegressor(**made, loss="quantile", quantile=[0.1, 0.5, 0.9]).fit(frame, y),
        rflaf.RFLAFRegressor(**made, loss="tweedie").fit(X, np.abs(y), offset=X[:, 0]),
        rflaf.RFLAFClassifier(**made).fit(X, soft),
    ]


def split(data: bytes) -> tuple[dict, bytes]:
    length = int.from_bytes(data[:8], "little")
    return json.loads(data[8 : 8 + length]), data[8 + length :]


def joined(header: bytes, body: bytes) -> bytes:
    return len(header).to_bytes(8, "little") + header + body


def forged(header: dict, arrays: dict[str, np.ndarray]) -> bytes:
    """A file whose checksum is right."""
    text = json.dumps(header)
    return pack(arrays, {"rflaf": text, "sha256": envelope.digest_of(text, arrays)})


def parts(data: bytes) -> tuple[dict, dict[str, np.ndarray]]:
    outer, body = split(data)
    header = json.loads(outer.pop("__metadata__")["rflaf"])
    dtypes = {"F64": np.float64, "F32": np.float32, "I64": np.int64}
    arrays = {}
    for name, about in outer.items():
        begin, end = about["data_offsets"]
        arrays[name] = np.frombuffer(body[begin:end], dtypes[about["dtype"]]).reshape(about["shape"]).copy()
    return header, arrays


def flip_bits(data: bytes, rng: np.random.Generator) -> bytes:
    mutated = bytearray(data)
    for at in rng.integers(len(data), size=rng.integers(1, 9)):
        mutated[at] ^= 1 << rng.integers(8)
    return bytes(mutated)


def truncate(data: bytes, rng: np.random.Generator) -> bytes:
    return data[: rng.integers(len(data))]


def splice(data: bytes, rng: np.random.Generator) -> bytes:
    a, b, c = np.sort(rng.integers(len(data), size=3))
    return [data[:a] + data[b:], data[:b] + data[a:], data[:a] + bytes(b - a) + data[b:], data + data[a:c]][
        rng.integers(4)
    ]


def random_header(data: bytes, rng: np.random.Generator) -> bytes:
    _, body = split(data)
    noise = rng.integers(256, size=rng.integers(1, 200), dtype=np.uint8).tobytes()
    header = [noise, b"{}", b"[]", b"null", b'{"__metadata__":' + noise + b"}", json.dumps(random_value(rng)).encode()]
    return joined(header[rng.integers(len(header))], body)


def huge_shapes(data: bytes, rng: np.random.Generator) -> bytes:
    outer, body = split(data)
    names = [name for name in outer if name != "__metadata__"]
    about = outer[names[rng.integers(len(names))]]
    huge = int(rng.choice([2**31, 2**40, 2**62, 2**63, 10**30, 0, -1]) if rng.random() < 0.9 else 10**18)
    match rng.integers(4):
        case 0:
            about["shape"] = [huge, *about["shape"][1:]]
        case 1:
            about["shape"] = [0, huge]
        case 2:
            about["data_offsets"] = [0, huge]
        case 3:
            return huge.to_bytes(16, "little", signed=True)[:8] + data[8:]
    return joined(json.dumps(outer).encode(), body)


def json_bomb(data: bytes, rng: np.random.Generator) -> bytes:
    n = int(10 ** rng.uniform(2, 5.5))
    bomb = [
        "[" * n,
        '{"a":' * n,
        "[" + "[]," * n + "[]]",
        "[" + "0," * n + "0]",
        '"' + "a" * n + '"',
        "9" * n,
        "1e" + "9" * min(n, 1000),
    ][rng.integers(7)]
    outer, body = split(data)
    if rng.random() < 0.3:
        return joined(bomb.encode(), body)
    if rng.random() < 0.5:
        outer["__metadata__"]["rflaf"] = bomb
        return joined(json.dumps(outer).encode(), body)
    header, arrays = parts(data)
    text = json.dumps(header)
    key = f'"{list(header)[rng.integers(len(header))]}": '
    text = text.replace(key, f"{key}{bomb}, " + '"rest": ', 1)
    return pack(arrays, {"rflaf": text, "sha256": envelope.digest_of(text, arrays)})


def archive_bomb(data: bytes, rng: np.random.Generator) -> bytes:
    return [gzip.compress(bytes(10**6)), b"PK\x03\x04" + data, b"\x80\x04\x95" + data, b""][rng.integers(4)]


ODD_VALUES = (
    None, True, False, 0, 1, -1, 2**40, 10**25, 0.5, -1e300, 1e308, "", "inf", "nan", "RFLAFRegressor", "os.system",
    [], {}, [[]], [1, 2], "x" * 50, "\ud800", {"array": "model.v"}, {"class": "Squared"},
    {"class": "Huber", "delta": 1e-320},
    {"class": "RBFBasis", "n_basis": 1024, "interval": [0.0, 1.0], "width": 0.001},
)  # fmt: skip


def random_value(rng: np.random.Generator):
    return copy.deepcopy(ODD_VALUES[rng.integers(len(ODD_VALUES))])


def leaves(value, path=()):
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from leaves(item, (*path, key))


def forge_header(data: bytes, rng: np.random.Generator) -> bytes:
    header, arrays = parts(data)
    for _ in range(rng.integers(1, 4)):
        paths = [path for path in leaves(header) if path]
        *way, last = paths[rng.integers(len(paths))]
        owner = header
        for key in way:
            owner = owner[key]
        if rng.random() < 0.2:
            del owner[last]
        elif isinstance(owner[last], int | float) and rng.random() < 0.5:
            owner[last] = owner[last] * int(rng.integers(-3, 1000))
        else:
            owner[last] = random_value(rng)
    return forged(header, arrays)


def forge_arrays(data: bytes, rng: np.random.Generator) -> bytes:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _forge_arrays(data, rng)


def _forge_arrays(data: bytes, rng: np.random.Generator) -> bytes:
    header, arrays = parts(data)
    names = list(arrays)
    for _ in range(rng.integers(1, 3)):
        name = names[rng.integers(len(names))]
        array = arrays[name]
        match rng.integers(7):
            case 0 if array.size and array.dtype == np.float64:
                array.flat[rng.integers(array.size)] = rng.choice([np.nan, np.inf, 1e300, -1e308, 5e-324])
            case 1 if array.size and array.dtype == np.int64:
                array.flat[rng.integers(array.size)] = rng.choice([-1, 2**62, -(2**62), 7])
            case 2:
                arrays[name] = array.T.copy()
            case 3:
                arrays[name] = array[..., None].copy()
            case 4:
                arrays[name] = np.concatenate([array, array]) if array.size else array
            case 5:
                arrays[name] = array.astype([np.float32, np.int64, np.float64, np.int8, np.float16][rng.integers(5)])
            case 6:
                arrays[name] = arrays[names[rng.integers(len(names))]]
    return forged(header, {name: np.ascontiguousarray(array) for name, array in arrays.items()})


def references(value) -> list[dict]:
    """All the places of a header that name an array."""
    if isinstance(value, dict):
        return (
            [value] if value.keys() == {"array"} else [place for item in value.values() for place in references(item)]
        )
    return [place for item in value for place in references(item)] if isinstance(value, list) else []


def share_arrays(data: bytes, rng: np.random.Generator) -> bytes:
    """Places that name arrays of other places, of the same shape or not; arrays that nothing names go or stay."""
    header, arrays = parts(data)
    places, names = references(header), list(arrays)
    for _ in range(rng.integers(1, 5)):
        place = places[rng.integers(len(places))]
        alike = [name for name in names if arrays[name].shape == arrays[place["array"]].shape]
        place["array"] = str(rng.choice(alike if rng.random() < 0.7 else names))
    if rng.random() < 0.5:
        named = {place["array"] for place in places}
        arrays = {name: array for name, array in arrays.items() if name in named}
    return forged(header, arrays)


def repeat_items(data: bytes, rng: np.random.Generator) -> bytes:
    """One item of a list thousands of times, on an array that may be large or of another precision."""
    header, arrays = parts(data)
    lists = [path for path in leaves(header) if isinstance(_at(header, path), list) and _at(header, path)]
    if not lists:
        return forged(header, arrays)
    items = _at(header, lists[rng.integers(len(lists))])
    item = items[rng.integers(len(items))]
    items.extend([item] * int(10 ** rng.uniform(1, 3.7)))
    for place in references(item)[:1]:
        arrays[place["array"]] = np.ones(int(10 ** rng.uniform(1, 4.5)), [np.float32, np.float64][rng.integers(2)])
    return forged(header, arrays)


def _at(value, path):
    for key in path:
        value = value[key]
    return value


def share_bytes(data: bytes, rng: np.random.Generator) -> bytes:
    """Arrays that lie in the same bytes of the file, or in bytes that overlap, with the checksum they would have."""
    outer, body = split(data)
    header, arrays = parts(data)
    names = list(arrays)
    one, other = (names[k] for k in rng.integers(len(names), size=2))
    begin, end = outer[other]["data_offsets"]
    shift = int(rng.choice([0, 0, 8, -8, end - begin]))
    outer[one] = {**outer[other], "data_offsets": [max(begin + shift, 0), max(end + shift, 0)]}
    arrays[one] = arrays[other]
    text = json.dumps(header)
    outer["__metadata__"] = {"rflaf": text, "sha256": envelope.digest_of(text, arrays)}
    return joined(json.dumps(outer).encode(), body)


MUTATIONS: tuple[Mutation, ...] = (
    flip_bits, truncate, splice, random_header, huge_shapes, json_bomb, archive_bomb,
    forge_header, forge_arrays, forge_header, forge_arrays, share_arrays, repeat_items, share_bytes,
)  # fmt: skip


def nothing_in(encoding: TableEncoding) -> pa.Table:
    """Two rows without a value."""
    return pa.table({name: pa.nulls(2, pa.string()) for name in encoding.column_names})


def predicts(model) -> None:
    """A model that was read must do its work."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        if model.table_encoding_ is not None:
            assert model.predict(nothing_in(model.table_encoding_)).shape[0] == 2
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "rows.parquet"
                parquet.write_table(nothing_in(model.table_encoding_), path)
                assert model.predict(path).shape[0] == 2
        _answers(model)
        X = np.linspace(-1, 1, 3 * model.model_.n_features).reshape(3, -1)
        if model.table_encoding_ is None:
            assert (model.predict(X) if hasattr(model, "predict") else model.transform(X)).shape[0] == 3
        model.model_.decision(X.astype(np.float32))


def _answers(model) -> None:
    """Ask for intervals, sets of labels and reasons: answers or a documented refusal."""
    n_columns = model.model_.n_features
    rows = np.linspace(-1, 1, 2 * n_columns).reshape(2, -1)
    if model.table_encoding_ is not None:
        rows = nothing_in(model.table_encoding_)
    for name in ("predict_interval", "predict_set", "explain"):
        if hasattr(model, name):
            with contextlib.suppress(ValueError):
                getattr(model, name)(rows)


class Watch:
    """Notes what must not happen while a file is read."""

    def __init__(self) -> None:
        self.on, self.events = False, Counter()
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple) -> None:
        if self.on and event in FORBIDDEN:
            self.events[f"{event} {arguments[:1]!r}"[:200]] += 1


def megabytes() -> float:
    """The largest resident memory so far, or 0 on Windows, which does not count it."""
    if resource is None:
        return 0.0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


def run(n_runs: int, seed: int = 0) -> dict:
    """Mutate, read and use ``n_runs`` files; the tally of how they ended."""
    rng, files, watch = np.random.default_rng(seed), seeds(), Watch()
    ends: Counter[str] = Counter()
    failures: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.rflaf"
        for data in files:  # whatever is compiled or imported on first use
            path.write_bytes(data)
            predicts(persistence.load(path))
        before, started, slowest = megabytes(), time.process_time(), 0.0
        for number in range(n_runs):
            mutation = MUTATIONS[rng.integers(len(MUTATIONS))]
            path.write_bytes(mutation(files[rng.integers(len(files))], rng))
            watch.on, began = True, time.process_time()
            try:
                predicts(persistence.load(path))
                end = "a model"
            except UnreadableModelFile:
                end = "unreadable"
            except MemoryBudgetError:  # a forged ``memory`` is a setting as any other
                end = "a model"
            except Exception as error:
                end = "failure"
                failures.append(f"{number} {mutation.__name__}: {type(error).__name__}: {error}"[:300])
            finally:
                watch.on = False
            slowest = max(slowest, time.process_time() - began)
            ends[f"{mutation.__name__}: {end}"] += 1
            if sys.stderr.isatty() and number % 1000 == 0:
                sys.stderr.write(f"\r{number}")
        grown = megabytes() - before
    return {
        "runs": n_runs,
        "seconds": round(time.process_time() - started, 1),
        "slowest": round(slowest, 2),
        "ends": dict(sorted(ends.items())),
        "failures": failures,
        "forbidden": dict(watch.events),
        "megabytes": round(grown, 1),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=int, nargs="?", default=1000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    tally = run(options.runs, options.seed)
    sys.stdout.write(json.dumps(tally, indent=1) + "\n")
    within = tally["megabytes"] <= MOST_MEGABYTES and tally["slowest"] <= MOST_SECONDS
    sys.exit(not within or bool(tally["failures"] or tally["forbidden"]))
