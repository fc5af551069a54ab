"""Results as plain JSON and arrays, without pickle, and outlines by which a forged one is known before it is built.

Numbers, texts, arrays, and tuples, dataclasses and enumerations of this package are packed. `refuse_unlike` compares a
packed value with another of the same pass: kinds, names, lengths, shapes and dtypes must be equal; numbers may differ,
unless their field is declared with ``metadata=FIXED``.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping, Sequence
from enum import Enum
from types import MappingProxyType
from typing import Any

import numpy as np

from rflaf.errors import Array

FIXED: Mapping[str, bool] = MappingProxyType({"fixed": True})  # of a field that has one value in all sums of a pass
_DTYPES = "biufcSU"  # kinds of arrays that are packed
_PACKAGE = __name__.partition(".")[0]
_OBJECTS = ("enum", "named", "data")


class UnlikeError(ValueError):
    """A packed value is not what a pass of this fit makes."""


@dataclasses.dataclass(frozen=True, slots=True)
class Packed:
    """JSON in which arrays are numbers, and the arrays."""

    value: Any
    arrays: Sequence[Array]


def pack(value: Any) -> Packed:
    """Return a value of numbers, strings, arrays and objects of this package; TypeError for any other."""
    arrays: list[Array] = []
    return Packed(_pack(value, arrays), arrays)


def is_plain(packed: Packed) -> bool:
    """Return whether a packed value holds no objects: numbers, texts, arrays, and lists and tuples of these."""

    def plain(value: Any) -> bool:
        if not isinstance(value, dict):
            return True
        kind, content = next(iter(value.items()))
        return kind not in (*_OBJECTS, "dict") and (not isinstance(content, list) or all(map(plain, content)))

    return plain(packed.value)


def unpack(packed: Packed) -> Any:
    """Return the value that was packed; `UnlikeError` if there is none."""
    try:
        return _unpack(packed.value, packed.arrays)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, RecursionError) as error:
        raise UnlikeError(str(error)) from None


def refuse_unlike(packed: Packed, like: Packed) -> None:
    """Raise `UnlikeError` unless a packed value has the outline of another one."""
    try:
        _compare(packed.value, packed.arrays, like.value, like.arrays)
    except (KeyError, TypeError, IndexError, AttributeError, StopIteration, RecursionError) as error:
        raise UnlikeError(repr(error)) from None


def _pack(value: Any, arrays: list[Array]) -> Any:
    if value is None or isinstance(value, bool | str) or type(value) in (int, float):
        return value
    if isinstance(value, np.ndarray | np.generic):
        if value.dtype.kind not in _DTYPES:
            raise TypeError(value.dtype)
        arrays.append(np.asarray(value))
        return {"array" if isinstance(value, np.ndarray) else "scalar": len(arrays) - 1}
    if isinstance(value, Mapping):
        return {"dict": [[_pack(key, arrays), _pack(part, arrays)] for key, part in value.items()]}
    if type(value) in (list, tuple):
        return {type(value).__name__: [_pack(part, arrays) for part in value]}
    kind = type(value)
    if kind.__module__.partition(".")[0] != _PACKAGE:
        raise TypeError(kind)
    if isinstance(value, Enum):
        return {"enum": kind.__name__, "member": value.name}
    if isinstance(value, tuple):
        return {"named": kind.__name__, "fields": [_pack(part, arrays) for part in value]}
    if dataclasses.is_dataclass(value):
        return {"data": kind.__name__, "fields": _pack_fields(value, arrays)}
    raise TypeError(kind)


def _pack_fields(value: Any, arrays: list[Array]) -> dict[str, Any]:
    packed = {}
    for field in dataclasses.fields(value):
        if field.init:
            part = _pack(getattr(value, field.name), arrays)
            packed[field.name] = {"fixed": part} if "fixed" in field.metadata else part
    return packed


def _unpack(packed: Any, arrays: Sequence[Array]) -> Any:
    if not isinstance(packed, dict):
        return packed
    kind, content = next(iter(packed.items()))
    if kind in ("array", "scalar"):
        array = arrays[content]
        return array if kind == "array" else array[()]
    if kind == "fixed":
        return content
    if kind == "dict":
        return {_unpack(key, arrays): _unpack(part, arrays) for key, part in content}
    if kind in ("list", "tuple"):
        parts = [_unpack(part, arrays) for part in content]
        return parts if kind == "list" else tuple(parts)
    if kind not in _OBJECTS:
        raise UnlikeError(f"{kind!r} is no kind of value")
    named = _type_named(content)
    if kind == "enum":
        return named[packed["member"]]
    if kind == "named":
        return named(*(_unpack(part, arrays) for part in packed["fields"]))
    return named(**{field: _unpack(part, arrays) for field, part in packed["fields"].items()})


def _type_named(name: str) -> Any:
    """Return the loaded tuple, dataclass or enumeration of this package with that unique name; nothing is imported."""
    found = {
        kind
        for module, content in list(sys.modules.items())
        if module.partition(".")[0] == _PACKAGE and isinstance(kind := vars(content).get(name), type)
        if kind.__module__.partition(".")[0] == _PACKAGE and kind.__name__ == name
        if dataclasses.is_dataclass(kind) or issubclass(kind, tuple | Enum)
    }
    if len(found) != 1:
        raise UnlikeError(f"{name!r} is no result of this package")
    return found.pop()


def _compare(found: Any, arrays: Sequence[Array], like: Any, like_arrays: Sequence[Array]) -> None:
    def same(one: Any, other: Any) -> None:
        _compare(one, arrays, other, like_arrays)

    if not isinstance(like, dict) or not isinstance(found, dict):
        if _sort(found) != _sort(like):
            raise UnlikeError(f"{found!r:.40} where a pass makes a value such as {like!r:.40}")
        return
    kind, content = next(iter(like.items()))
    if set(found) != set(like) or next(iter(found)) != kind:
        raise UnlikeError(f"a value of the kind {next(iter(found), None)!r:.40} where a pass makes one of {kind!r}")
    other = found[kind]
    if kind in ("array", "scalar"):
        _compare_arrays(arrays[other], like_arrays[content])
    elif kind == "fixed":
        if other != content or type(other) is not type(content):
            raise UnlikeError(f"{other!r:.40} where a pass has {content!r}")
    elif kind == "list":  # of any length
        for part in other:
            same(part, content[0] if content else 0)
    elif kind in ("tuple", "dict"):
        _refuse_lengths(other, content)
        for one, two in zip(other, content, strict=True):
            if kind == "tuple":
                same(one, two)
            elif one[0] != two[0]:
                raise UnlikeError(f"the key {one[0]!r:.40} where a pass makes {two[0]!r:.40}")
            else:
                same(one[1], two[1])
    elif other != content:
        raise UnlikeError(f"{other!r:.40} where a pass makes {content!r}")
    elif kind == "named":
        same({"tuple": found["fields"]}, {"tuple": like["fields"]})
    elif kind == "data":
        same(*({"dict": [list(item) for item in packed["fields"].items()]} for packed in (found, like)))


def _refuse_lengths(found: Sequence[Any], like: Sequence[Any]) -> None:
    if len(found) != len(like):
        raise UnlikeError(f"{len(found)} parts where a pass makes {len(like)}")


def _compare_arrays(found: Array, like: Array) -> None:
    """Arrays must have one shape and kind of dtype; an empty one stands for any of its kind and dimension."""
    alike = found.dtype.kind == like.dtype.kind and (found.dtype == like.dtype or like.dtype.kind in "fSU")
    if not alike or found.ndim != like.ndim or (like.size and found.shape != like.shape):
        raise UnlikeError(f"{found.dtype} {found.shape} where a pass makes {like.dtype} {like.shape}")


def _sort(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return type(value).__name__
    return "number"
