"""Model files: a fitted estimator, alone or with the encoding of its table, as data.

One file in the safetensors format: arrays as they are, and in its metadata a JSON header with the format number, the
version of the library, the class, its parameters, feature names, classes and provenance. No pickle, no code: reading
builds the few classes listed here, from values that were checked before. A file that is damaged, forged or foreign ends
in `UnreadableModelFile` before more memory is taken than a model of its size needs.

Format numbers only grow, and readers of all of them stay: `_UPGRADES` turns the header of one format into that of the
next. Needs the extra ``save``.

>>> import numpy as np, rflaf, tempfile, pathlib
>>> X = np.linspace(0, 1, 200)[:, None]
>>> model = rflaf.RFLAFRegressor.convex(5, random_state=0).fit(X, np.sin(6 * X[:, 0]))
>>> path = pathlib.Path(tempfile.mkdtemp()) / "sine.rflaf"
>>> rflaf.save(model, path)
>>> bool(np.all(rflaf.load(path).predict(X) == model.predict(X)))
True
>>> describe_file(path)["class"]
'RFLAFRegressor'
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from .bases import Basis, BSplineBasis, RBFBasis
from .curves import ColumnCurves, Knots
from .errors import InvalidParameterError, MissingExtraError, UnreadableModelFile
from .estimators import RandomActivationFeatures, RFLAFClassifier, RFLAFRegressor
from .incremental import Seen, Terms
from .last_layer import LastLayer
from .leverage import Leverage
from .losses import Huber, Logistic, Loss, Pinball, Poisson, Softmax, Squared, SquaredHinge, Units
from .model import Activation, RandomFeatureModel
from .normal_equations import NormalEquations, Remedy
from .outcomes import StopReason
from .parameters import check_parameters
from .recipes import Trial
from .refine import Recipe
from .risk import Memory
from .selection import Selection
from .spectral import Cauchy, Directions, Gaussian, OrthogonalGaussian, SobolGaussian, StudentT
from .table_model import TableModel
from .tables import TableEncoding, TargetEncoding
from .training import FitResult

Array = NDArray[Any]
T = TypeVar("T")
FORMAT = 1
_UPGRADES: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}  # from a format to the next, for headers
_LARGEST_HEADER = 2**24  # bytes
_MOST_TOKENS = 400_000  # values in a header: some take a hundred bytes once they are read
_LARGEST_WORK, _WORK_A_BYTE = 2**26, 32  # bytes a model may take once it is compiled: these, and so many times its file
_MOST_BASIS = 1024
_FARTHEST_END = 1e100  # of the interval of a basis, and the width of its functions
_ESTIMATORS = {kind.__name__: kind for kind in (RFLAFRegressor, RFLAFClassifier, RandomActivationFeatures)}
_LOSSES = {kind.__name__: kind for kind in (Squared, Huber, Pinball, Poisson, Logistic, Softmax, SquaredHinge)}
_DENSITIES = {kind.__name__: kind for kind in (Gaussian, StudentT, Cauchy, OrthogonalGaussian, SobolGaussian)}
_BASES = {kind.__name__: kind for kind in (BSplineBasis, RBFBasis)}
_PARTS: dict[str, Any] = {**_LOSSES, **_DENSITIES, **_BASES}  # what may be an argument of an estimator
_DTYPES = {"F64": np.float64, "F32": np.float32, "I64": np.int64}
_LABELS = {"U": str, "O": str, "i": int, "u": int, "f": float, "b": bool}  # kind of a NumPy dtype -> class of a label


def save(model: Any, path: str | Path, *, provenance: Mapping[str, Any] | None = None) -> None:
    """Write a fitted estimator or a `TableModel` to ``path``.

    ``provenance`` is any JSON about how it came about. The file takes its place only when it is whole and can be read.
    Not kept: what the candidates in ``trials_`` predicted, and a ``random_state`` that is a generator, which becomes
    None.
    """
    path = Path(path)
    header, arrays = _header(model, provenance)
    _refuse_large(path, header)
    with replacing(path) as temporary:
        temporary.write_bytes(_pack(header, arrays))
        try:
            _build(*_unpack(temporary))
        except UnreadableModelFile as error:
            raise InvalidParameterError(
                "a model must be finite and of one piece to be saved", str(error), "Fit it anew."
            ) from None


def load(path: str | Path) -> Any:
    """The estimator or `TableModel` in a file that `save` wrote; anything else is an `UnreadableModelFile`."""
    return _build(*_unpack(Path(path)))


def describe_file(path: str | Path) -> dict[str, Any]:
    """What is in a model file, in plain values; nothing is built and no array is read.

    Besides the header: ``arrays``, the dtype and shape of each, and ``bytes``, the size of the file.
    """
    header, arrays, size = _unpack(Path(path))
    header = _present(header, arrays.path)
    shapes = {name: {"dtype": dtype, "shape": list(shape)} for name, (dtype, shape) in arrays.shapes.items()}
    return {**header, "arrays": shapes, "bytes": size}


def check_output(path: Path) -> None:
    """Refuse a path that cannot be written to, before any work is done for it."""
    folder = path.resolve().parent
    if not folder.is_dir() or path.is_dir():
        raise InvalidParameterError(
            "the output must be a file in a folder that exists", str(path), "Choose another path."
        )
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise InvalidParameterError(
            f"the folder of the output must be writable, but {error.strerror}", str(path), "Choose another path."
        ) from None


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A file beside ``path`` to write to, which takes its place in one step if all goes well, and else vanishes."""
    check_output(path)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.resolve().parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


# --- writing -----------------------------------------------------------------------------------------------


def _header(model: Any, provenance: Mapping[str, Any] | None) -> tuple[dict[str, Any], dict[str, Array]]:
    from . import __version__

    table = model if isinstance(model, TableModel) else None
    estimator = model if table is None else table.estimator
    kind = type(estimator).__name__
    if _ESTIMATORS.get(kind) is not type(estimator):
        raise InvalidParameterError(
            "only estimators of this package can be saved", kind, f"Save one of {list(_ESTIMATORS)}."
        )
    check_is_fitted(estimator)
    arrays: dict[str, Array] = {}
    names, classes = getattr(estimator, "feature_names_in_", None), getattr(estimator, "classes_", None)
    header = {
        "format": FORMAT,
        "library": __version__,
        "class": kind,
        "parameters": {name: _argument(name, value) for name, value in estimator.get_params(deep=False).items()},
        "n_features": int(estimator.n_features_in_),
        "feature_names": None if names is None else [str(name) for name in names],
        "classes": None if classes is None else _labels(classes),
        "fitted": _plain(_fitted(estimator), "", arrays),
        "table": None if table is None else table.encoding.to_dict(),
        "columns": None if estimator.table_encoding_ is None else estimator.table_encoding_.to_dict(),
        "target": None if table is None else _plain(table.target, "", arrays),
        "provenance": _json({**({} if table is None else table.provenance), **(provenance or {})}),
    }
    return header, arrays


def _fitted(estimator: Any) -> dict[str, Any]:
    return {
        "single_output": bool(estimator._single_output),
        "model": estimator.model_,
        "loss": estimator.loss_,
        "remedy": estimator.solver_remedy_,
        "alpha": float(estimator.alpha_),
        "bandwidth": float(estimator.bandwidth_),
        "trace": np.asarray(estimator.objective_trace_, np.float64),
        "stop_reason": estimator.stop_reason_,
        "column_importance": estimator.column_importance_,
        "leverage": estimator.leverage_,
        "selection": estimator.selection_,
        "trials": [
            {"recipe": trial.recipe, "width": trial.width, "error": trial.error, "strength": trial.strength}
            for trial in estimator.trials_
        ],
        "terms": estimator._terms,
        "seen": estimator._seen,
    }


def _plain(value: Any, at: str, arrays: dict[str, Array]) -> Any:
    """JSON for a value; arrays are put into ``arrays`` and named by where they are."""
    if isinstance(value, Loss) or type(value).__name__ in _PARTS:
        return _part(at, value)
    if isinstance(value, np.ndarray):
        wide = np.float64 if value.dtype.kind == "f" else np.int64
        arrays[at] = np.ascontiguousarray(value, wide)
        return {"array": at}
    if isinstance(value, Enum):
        return value.name
    if is_dataclass(value):
        kept = [field.name for field in fields(value) if not field.name.startswith("_")]
        return {name: _plain(getattr(value, name), f"{at}.{name}".lstrip("."), arrays) for name in kept}
    if isinstance(value, dict):
        return {name: _plain(item, f"{at}.{name}".lstrip("."), arrays) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, f"{at}.{number}", arrays) for number, item in enumerate(value)]
    if isinstance(value, Basis):
        raise _not_ours(at, value)
    return _scalar(value)


def _scalar(value: Any) -> Any:
    value = value.item() if isinstance(value, np.generic) else value
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _part(name: str, value: Any) -> dict[str, Any]:
    """A basis, density or loss by its class and the numbers it was made of."""
    kind = type(value).__name__
    if _PARTS.get(kind) is not type(value):
        raise _not_ours(name, value)
    return {"class": kind} | {field.name: _plain(getattr(value, field.name), "", {}) for field in fields(value)}


def _not_ours(name: str, value: Any) -> InvalidParameterError:
    return InvalidParameterError(
        f"{name} must be of this package to be saved without code", value, f"Use one of {', '.join(_PARTS)}."
    )


def _argument(name: str, value: Any) -> Any:
    """JSON for an argument of an estimator."""
    value = value.item() if isinstance(value, np.generic) else value
    if name == "random_state" and not isinstance(value, int | None):
        return None
    if isinstance(value, dict):
        return {"weights": [[_scalar(label), float(weight)] for label, weight in value.items()]}
    if value is None or isinstance(value, bool | int | float | str):
        return _scalar(value)
    return _part(name, value)


def _labels(classes: Array) -> dict[str, Any]:
    values = [_scalar(label) for label in classes]
    kind = _LABELS.get(classes.dtype.kind)
    if kind is None or not all(type(value) is kind for value in values):
        raise InvalidParameterError(
            "labels must be texts, whole numbers, numbers or truth values to be saved", classes.dtype, "Convert them."
        )
    return {"dtype": "str" if kind is str and classes.dtype.kind == "U" else classes.dtype.name, "values": values}


def _json(provenance: Mapping[str, Any]) -> Any:
    try:
        return json.loads(json.dumps(provenance, default=str), parse_constant=str)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidParameterError("provenance must be plain values", str(error), "Use texts and numbers.") from None


def _pack(header: dict[str, Any], arrays: dict[str, Array]) -> bytes:
    text = json.dumps(header, allow_nan=False)
    packed: bytes = require_safetensors().numpy.save(arrays, {"rflaf": text, "sha256": _digest(text, arrays)})
    return packed


def _refuse_large(path: Path, header: dict[str, Any]) -> None:
    text = json.dumps(header).encode()
    if len(text) > _LARGEST_HEADER // 2 or _count_tokens(text) > _MOST_TOKENS // 2:
        raise InvalidParameterError(
            "names, levels and provenance must fit into the header of a model file",
            f"{len(text)} bytes for {path.name}",
            "Shorten the names of the columns.",
        )


def _digest(text: str, arrays: Mapping[str, Array]) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        digest.update(f"\n{name} {arrays[name].dtype.str} {arrays[name].shape}\n".encode())
        digest.update(np.ascontiguousarray(arrays[name]).data)
    return digest.hexdigest()


def require_safetensors() -> Any:
    """``safetensors``, or an error that names the extra to install."""
    try:
        import safetensors
        import safetensors.numpy
    except ImportError as error:
        raise MissingExtraError("model files", "safetensors", "save") from error
    return safetensors


# --- reading -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Arrays:
    """The arrays of a file: dtype and shape of each, known before any is read."""

    path: Path
    shapes: dict[str, tuple[str, tuple[int, ...]]]
    text: str
    sha256: str

    def read(self) -> dict[str, Array]:
        """All of them, after the whole file was found to be what was written."""
        safetensors = require_safetensors()
        with _refusing(self.path), safetensors.safe_open(self.path, framework="numpy") as file:
            arrays = {name: np.asarray(file.get_tensor(name)) for name in self.shapes}
        if _digest(self.text, arrays) != self.sha256:
            raise UnreadableModelFile(self.path, "its content is not what was written: the checksum differs")
        return arrays


def _unpack(path: Path) -> tuple[dict[str, Any], _Arrays, int]:
    """Header and shapes of a file, and its size, with nothing read before its size is known to be sane."""
    safetensors = require_safetensors()
    with _refusing(path):
        size = _check_envelope(path)
        with safetensors.safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118, it is not a mapping
            shapes = {name: (part.get_dtype(), tuple(part.get_shape())) for name, part in slices.items()}
    text, sha256 = metadata.get("rflaf"), metadata.get("sha256")
    if text is None or sha256 is None:
        raise UnreadableModelFile(path, "it holds arrays but is no model of this package")
    for name, (dtype, shape) in shapes.items():
        if dtype not in _DTYPES or 0 in shape:
            if dtype in _DTYPES and shape == (0,):
                continue
            raise UnreadableModelFile(path, f"array {name!r} is of type {dtype} and shape {shape}")
    try:
        header = json.loads(text, parse_constant=_refuse_constant)
        json.dumps(header, ensure_ascii=False).encode()  # halves of characters are no text
    except (ValueError, RecursionError) as error:
        raise UnreadableModelFile(path, f"its header is not JSON: {error}") from None
    if not isinstance(header, dict):
        raise UnreadableModelFile(path, "its header is not a JSON object")
    return header, _Arrays(path, shapes, text, sha256), size


def _check_envelope(path: Path) -> int:
    """The size of a file whose header is no larger than it says, than the file, and than a header can be."""
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(size - 8, _LARGEST_HEADER):
            raise UnreadableModelFile(path, "it does not begin as a model file does")
        if _count_tokens(file.read(length)) > _MOST_TOKENS:
            raise UnreadableModelFile(path, f"its header has more than {_MOST_TOKENS} values")
    return size


def _count_tokens(text: bytes) -> int:
    return text.count(b",") + text.count(b"[") + text.count(b"{")


def _refuse_constant(word: str) -> Any:
    raise ValueError(f"{word} is no number")


@contextmanager
def _refusing(path: Path) -> Iterator[None]:
    """Complaints of the format's own library about a file that is there become ours."""
    safetensors = require_safetensors()
    try:
        yield
    except (safetensors.SafetensorError, ValueError, TypeError, MemoryError) as error:
        if isinstance(error, UnreadableModelFile):
            raise
        raise UnreadableModelFile(path, str(error) or type(error).__name__) from None


def _present(header: dict[str, Any], path: Path) -> dict[str, Any]:
    """The header in the present format."""
    number = header.get("format")
    if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= FORMAT:
        raise UnreadableModelFile(path, f"this version reads the formats 1 to {FORMAT}, not {number!r}")
    for old in range(number, FORMAT):
        header = _UPGRADES[old](header)
    return header


def _build(header: dict[str, Any], arrays: _Arrays, size: int) -> Any:
    """Estimator or table model from values that are all checked before they are used."""
    try:
        header = _present(header, arrays.path)
        _check_shapes(_Node(header, arrays.shapes, "header"), size)
        return _read_model(_Node(header, arrays.read(), "header"), size)
    except UnreadableModelFile:
        raise
    except (ValueError, TypeError, KeyError, IndexError, ArithmeticError, AttributeError, RecursionError) as error:
        raise UnreadableModelFile(arrays.path, str(error)) from None


@dataclass(frozen=True, slots=True)
class _Node:
    """A value of the header and where it stands, read by what it has to be."""

    value: Any
    arrays: Mapping[str, Any]
    at: str

    def __getitem__(self, name: str) -> _Node:
        if not isinstance(self.value, dict) or name not in self.value:
            raise ValueError(f"{self.at} has no {name!r}")
        return _Node(self.value[name], self.arrays, f"{self.at}.{name}")

    def refuse(self, rule: str) -> ValueError:
        return ValueError(f"{self.at} must be {rule}")

    def items(self, most: int = _MOST_TOKENS) -> list[_Node]:
        if not isinstance(self.value, list) or len(self.value) > most:
            raise self.refuse(f"a list of at most {most}")
        return [_Node(item, self.arrays, f"{self.at}[{number}]") for number, item in enumerate(self.value)]

    def text(self) -> str:
        if not isinstance(self.value, str):
            raise self.refuse("a text")
        return self.value

    def flag(self) -> bool:
        if not isinstance(self.value, bool):
            raise self.refuse("true or false")
        return self.value

    def whole(self, least: int = 0, most: int = 2**62) -> int:
        if not isinstance(self.value, int) or isinstance(self.value, bool) or not least <= self.value <= most:
            raise self.refuse(f"a whole number from {least} to {most}")
        return self.value

    def number(self, least: float = -math.inf, finite: bool = True) -> float:
        value = float(self.value) if self.value in ("inf", "-inf", "nan") and not finite else self.value
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.refuse("a number")
        if not (math.isfinite(value) and value >= least) and finite:
            raise self.refuse(f"a finite number of at least {least}")
        return float(value)

    def maybe(self, read: Callable[[_Node], T]) -> T | None:
        return None if self.value is None else read(self)

    def one_of(self, words: Mapping[str, T]) -> T:
        if not isinstance(self.value, str) or self.value not in words:
            raise self.refuse(f"one of {', '.join(words)}")
        return words[self.value]

    def name(self) -> str:
        return self["array"].text()

    def shape(self, n_dimensions: int) -> tuple[int, ...]:
        """Of an array that is still to be read."""
        name = self.name()
        if name not in self.arrays:
            raise self.refuse(f"an array of the file, not {name!r}")
        found: tuple[int, ...] = self.arrays[name][1]
        if len(found) != n_dimensions:
            raise self.refuse(f"of {n_dimensions} dimensions, not of shape {found}")
        return found

    def array(self, *shape: int | None, whole: bool = False, finite: bool = True) -> Array:
        """An array; None in ``shape`` stands for any length."""
        found = self.arrays.get(self.name())
        if not isinstance(found, np.ndarray) or found.dtype.kind != ("i" if whole else "f"):
            raise self.refuse("an array of whole numbers" if whole else "an array of numbers")
        if len(found.shape) != len(shape) or any(
            want not in (None, size) for want, size in zip(shape, found.shape, strict=True)
        ):
            raise self.refuse(f"of shape {shape}, not {found.shape}")
        if finite and not np.isfinite(found).all():
            raise self.refuse("finite")
        return found


def _check_shapes(header: _Node, size: int) -> None:
    """Refuse a model that would take far more memory than its file, before any array is read."""
    activation = header["fitted"]["model"]["activation"]
    n_tables, n_basis = activation["coefficients"].shape(2)
    basis = _read_part(activation["basis"], _BASES)
    if n_basis != basis.n_basis:
        raise activation["coefficients"].refuse(f"of {basis.n_basis} columns")
    _check_work(basis, n_tables, 1, size)


def _check_work(basis: Any, n_tables: int, resolution: int, size: int) -> None:
    """Refuse activations whose cubic pieces, and what it takes to find these, are out of proportion to their file."""
    work = 32 * basis.n_basis * (basis.n_basis + n_tables)
    if isinstance(basis, RBFBasis):
        n_cells = ((basis.interval[1] - basis.interval[0]) / basis.h + 14) * resolution
        work += (72 * basis.n_basis + 32 * n_cells) * (basis.n_basis + n_tables)
    if not work <= _LARGEST_WORK + _WORK_A_BYTE * size:
        raise ValueError(f"its activations would take {work:.3g} bytes")


def _read_model(header: _Node, size: int) -> Any:
    estimator = _read_estimator(header)
    activation = estimator.model_.activation
    if isinstance(activation.basis, RBFBasis):
        resolution = activation.basis.resolution(activation.coefficients)
        _check_work(activation.basis, activation.coefficients.shape[0], resolution, size)
    if header["table"].value is None:
        return estimator
    encoding = TableEncoding.from_dict(header["table"].value)
    target = header["target"]
    tasks = {"regression": "regression", "classification": "classification"}
    kinds = {kind: kind for kind in ("number", "whole", "truth", "text")}
    task = target["task"].one_of(tasks)
    aim = TargetEncoding(target["name"].text(), task, target["values"].one_of(kinds), target["reason"].text())
    if len(encoding.feature_names) != estimator.n_features_in_:
        raise ValueError(f"the encoding makes {len(encoding.feature_names)} columns for {estimator.n_features_in_}")
    if (task == "classification") != isinstance(estimator, RFLAFClassifier):
        raise ValueError(f"a {type(estimator).__name__} cannot do {task}")
    provenance = header["provenance"].value
    if not isinstance(provenance, dict):
        raise header["provenance"].refuse("an object")
    return TableModel(encoding, aim, estimator, provenance)


def _read_estimator(header: _Node) -> Any:
    kind = header["class"].one_of(_ESTIMATORS)
    given = header["parameters"]
    known = kind._get_param_names()
    if not isinstance(given.value, dict) or not set(given.value) <= set(known):
        raise given.refuse(f"an object of {', '.join(known)}")
    estimator = kind(**{name: _read_argument(given[name]) for name in given.value})
    check_parameters(estimator)
    n_features = header["n_features"].whole(1)
    names = header["feature_names"].maybe(lambda node: [name.text() for name in node.items()])
    if names is not None and len(names) != n_features:
        raise header["feature_names"].refuse(f"{n_features} names")
    fitted = header["fitted"]
    result = _read_result(fitted, n_features)
    n_outputs, single_output = result.model.n_outputs, fitted["single_output"].flag()
    estimator.n_features_in_ = n_features
    if names is not None:
        estimator.feature_names_in_ = np.array(names, dtype=object)
    estimator.table_encoding_ = _read_columns(header, n_features)
    if isinstance(estimator, RFLAFClassifier):
        estimator.classes_ = _read_labels(header["classes"], n_outputs)
        single_output = False
        if isinstance(result.loss, Softmax | Logistic) and isinstance(result.loss, Softmax) != (n_outputs > 1):
            raise fitted["loss"].refuse("that of the number of classes")
    elif single_output and n_outputs != 1:
        raise fitted["single_output"].refuse(f"false for {n_outputs} outputs")
    estimator._accept(result, single_output)
    estimator._seen = fitted["seen"].maybe(lambda node: _read_seen(node, result.model.n_components, n_outputs))
    return estimator


def _read_columns(header: _Node, n_features: int) -> TableEncoding | None:
    """The encoding of an estimator that was fitted to a file; the first files of format 1 do not speak of it."""
    if header.value.get("columns") is None:
        return None
    encoding = TableEncoding.from_dict(header["columns"].value)
    if len(encoding.feature_names) != n_features:
        raise header["columns"].refuse(f"an encoding of {n_features} columns")
    return encoding


def _read_argument(node: _Node) -> Any:
    value = node.value
    if isinstance(value, dict) and "weights" in value:
        pairs = [pair.items(2) for pair in node["weights"].items()]
        return {_read_label(label): weight.number(0.0) for label, weight in pairs}
    if isinstance(value, dict):
        return _read_part(node, _PARTS)
    if value in ("inf", "-inf", "nan"):
        return node.number(finite=False)
    if value is not None and not isinstance(value, bool | int | float | str):
        raise node.refuse("a plain value")
    return value


def _read_label(node: _Node) -> Any:
    if not isinstance(node.value, str | int | float | bool):
        raise node.refuse("a label")
    return node.value


def _read_part(node: _Node, kinds: Mapping[str, Any]) -> Any:
    """A basis, density or loss; each checks its own numbers."""
    kind = node["class"].one_of(kinds)
    given: dict[str, Any] = {}
    for field in fields(kind):
        part = node[field.name]
        if field.name == "interval":
            given["interval"] = tuple(_read_length(end) for end in part.items(2))
            if not abs(np.subtract(*given["interval"])) > 1 / _FARTHEST_END:
                raise part.refuse("two numbers apart")
        elif field.name == "width":
            given["width"] = part.maybe(_read_length)
        elif field.name in ("n_basis", "degree"):
            given[field.name] = part.whole(1, _MOST_BASIS)
        else:
            given[field.name] = part.maybe(lambda part: part.number(finite=False))
    if set(node.value) != {"class", *given}:
        raise node.refuse(f"of {', '.join(given)}")
    if any(isinstance(value, float) and math.isnan(value) for value in given.values()):
        raise node.refuse("numbers")
    return kind(**given)


def _read_length(node: _Node) -> float:
    if abs(node.number()) > _FARTHEST_END:
        raise node.refuse(f"at most {_FARTHEST_END:g} in size")
    return node.number()


def _read_labels(node: _Node, n_outputs: int) -> Array:
    dtype = node["dtype"].text()
    kind = {"str": str, "object": str, "bool": bool}.get(dtype) or {"i": int, "u": int, "f": float}.get(dtype[:1])
    values = [_read_label(label) for label in node["values"].items()]
    if kind is None or any(type(value) is not kind for value in values):
        raise node.refuse("labels of one kind")
    if dtype not in ("str", "object", "bool") and np.dtype(dtype).name not in np.sctypeDict:
        raise node.refuse("of a known dtype")
    classes: Array = np.array(values, dtype=object if dtype == "object" else dtype)
    if len(classes) != (2 if n_outputs == 1 else n_outputs) or len(set(classes.tolist())) != len(classes):
        raise node.refuse(f"as many different labels as {n_outputs} outputs tell apart")
    if not all(low < high for low, high in pairwise(classes)):
        raise node.refuse("in order")
    return classes


def _read_result(node: _Node, n_features: int) -> FitResult:
    model = _read_features(node["model"], n_features)
    return FitResult(
        model=model,
        loss=_read_part(node["loss"], _LOSSES),
        remedy=node["remedy"].one_of(Remedy.__members__),
        terms=_read_terms(node["terms"], model.n_outputs),
        alpha=node["alpha"].number(finite=False),
        bandwidth=node["bandwidth"].number(finite=False),
        trace=node["trace"].array(None, finite=False),
        stop_reason=node["stop_reason"].one_of(StopReason.__members__),
        column_importance=node["column_importance"].array(n_features, finite=False),
        leverage=node["leverage"].maybe(_read_leverage),
        selection=node["selection"].maybe(_read_selection),
        trials=tuple(_read_trial(trial) for trial in node["trials"].items()),
    )


def _read_features(node: _Node, n_features: int) -> RandomFeatureModel:
    directions = node["directions"]
    W = directions["W"].array(n_features, None)
    width = W.shape[1]
    drawn = Directions(
        W, directions["offset"].array(width), directions["importance"].array(width), directions["n_draws"].whole(1)
    )
    v = node["v"].array(width, None)
    n_outputs = v.shape[1]
    return RandomFeatureModel(
        drawn,
        _read_activation(node["activation"], width),
        v,
        node["intercept"].array(n_outputs),
        node["curves"].maybe(lambda curves: _read_curves(curves, n_features, width)),
        node["last_layer"].maybe(lambda layer: _read_last_layer(layer, width, n_outputs)),
    )


def _read_activation(node: _Node, width: int) -> Activation:
    basis = _read_part(node["basis"], _BASES)
    coefficients = node["coefficients"].array(None, basis.n_basis)
    if coefficients.shape[0] not in (1, width):
        raise node["coefficients"].refuse(f"one activation or {width}")
    square = (basis.n_basis, basis.n_basis)
    return Activation(basis, coefficients, node["covariance"].maybe(lambda part: part.array(*square, finite=False)))


def _read_curves(node: _Node, n_features: int, width: int) -> ColumnCurves:
    """Columns and nodes in increasing order, at least two nodes a column: what the compiled loops rely on."""
    knots = node["knots"]
    columns, nodes = knots["columns"].array(None, whole=True), knots["nodes"].array(None)
    start = knots["start"].array(columns.size + 1, whole=True)
    if columns.size and not (columns[0] >= 0 and columns[-1] < n_features and (np.diff(columns) > 0).all()):
        raise knots["columns"].refuse(f"increasing numbers below {n_features}")
    if start[0] != 0 or start[-1] != nodes.size or (np.diff(start) < 2).any():
        raise knots["start"].refuse(f"increasing from 0 to {nodes.size}")
    inner = np.ones(max(nodes.size - 1, 0), bool)
    inner[start[1:-1] - 1] = False
    if (np.diff(nodes)[inner] <= 0).any():
        raise knots["nodes"].refuse("increasing within a column")
    if not nodes.size:
        return ColumnCurves(Knots(columns.astype(np.intp), start.astype(np.intp), nodes), np.zeros((0, width)))
    values = node["values"].array(nodes.size, width)
    return ColumnCurves(Knots(columns.astype(np.intp), start.astype(np.intp), nodes), values)


def _read_equations(node: _Node, width: int, n_outputs: int) -> NormalEquations:
    side = width + 1 + n_outputs
    moments = node["moments"].array(side, side)
    if not moments[width, width] > 0 or (np.diagonal(moments) < 0).any():
        raise node["moments"].refuse("sums of squares")
    if node["n_outputs"].whole() != n_outputs:
        raise node["n_outputs"].refuse(f"{n_outputs}")
    return NormalEquations(
        moments, n_outputs, node["n_rows"].number(0.0), node["whole_weights"].flag(), node["precision"].number(0.0)
    )


def _read_last_layer(node: _Node, width: int, n_outputs: int) -> LastLayer:
    noise = node["noise"].array(n_outputs)
    if (noise < 0).any():
        raise node["noise"].refuse("at least zero")
    equations = _read_equations(node["equations"], width, n_outputs)
    return LastLayer(equations, node["ridge"].number(0.0), noise, node["intercept"].flag())


def _read_terms(node: _Node, n_outputs: int) -> Terms:
    units = Units(*(node["units"][name].array(n_outputs) for name in ("centre", "scale", "shift", "stretch")))
    loss = _read_part(node["loss"], _LOSSES)
    return Terms(loss, node["ridge"].number(0.0), units, node["weight"].number(0.0), node["intercept"].flag())


def _read_seen(node: _Node, width: int, n_outputs: int) -> Seen:
    memory, side = node["memory"], width + 1
    return Seen(
        _read_equations(node["equations"], width, n_outputs),
        Memory(
            memory["A"].array(n_outputs, side, side),
            memory["centre"].array(side, n_outputs),
            memory["slope"].array(side, n_outputs),
            memory["weight"].number(0.0),
        ),
    )


def _read_leverage(node: _Node) -> Leverage:
    scores = node["scores"].array(None, finite=False)
    kept = node["kept"].maybe(lambda drawn: drawn.array(None, whole=True)) if "kept" in node.value else None
    if kept is not None and kept.size and not (kept.min() >= 0 and kept.max() < scores.size):
        raise node["kept"].refuse(f"numbers below {scores.size}")
    return Leverage(scores, node["lam"].number(), node["relative_error"].number(finite=False), kept)


def _read_selection(node: _Node) -> Selection:
    order = node["order"].array(None, whole=True)
    errors, gcv = (node[name].array(order.size + 1, finite=False) for name in ("errors", "gcv"))
    return Selection(order, errors, gcv)


def _read_trial(node: _Node) -> Trial:
    recipe = node["recipe"]
    how = Recipe(recipe["alpha"].number(), recipe["rate"].number(), recipe["nodes"].whole(), recipe["effort"].number())
    strength = node["strength"].array(None, finite=False)
    return Trial(how, node["width"].whole(1), node["error"].number(finite=False), np.zeros(0), strength)
