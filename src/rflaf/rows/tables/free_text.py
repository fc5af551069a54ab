"""Free text: texts that hardly repeat, by the runs of letters they share.

A text, in small letters and with a space at either end, is a bag of its runs of three bytes, hashed to 1,024 buckets.
With c_b runs in bucket b, and d_b of n texts that have it, its vector is log(1 + c_b) (1 + log((1 + n) / (1 + d_b))),
of length one. The columns are the first principal components of these vectors over a sample of the texts; no target
is looked at.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from heapq import nsmallest
from typing import Any, ClassVar
from zlib import crc32

import numpy as np
import scipy  # its parts are imported on first use

from rflaf.errors import Array, InvalidParameterError

from . import cells
from .statistics import check_text

N_COLUMNS = 10
SAMPLE_TEXTS = 2000  # that the components are learned from
_BUCKETS, _RUN = 1024, 3
_FACTORS = tuple(map(np.uint32, (0x9E3779B1, 0x85EBCA6B, 0xC2B2AE35)))
_WORDS = r"\pL{2}\S*\s+\S*\pL{2}"  # two, of two letters each


def text_sample(texts: Iterable[str]) -> tuple[str, ...]:
    """Return some of the texts, the same whatever their order: a sample of samples is one of all texts."""
    return tuple(nsmallest(SAMPLE_TEXTS, set(texts), key=lambda text: (crc32(text.encode()), text)))


def has_words(texts: Iterable[str]) -> bool:
    """Return whether most texts have two words or more, and differ in them: numbered codes do not.

    >>> has_words(["red wool hat", "blue hat"]), has_words(["A-1003", "B-2204"])
    (True, False)
    """
    compute, pa = cells.require_arrow().compute, cells.require_arrow()
    without_digits = compute.replace_substring_regex(pa.array(list(texts), pa.string()), r"\d+", "")
    found = int(compute.sum(compute.match_substring_regex(without_digits, _WORDS)).as_py() or 0)
    return 2 * found > len(without_digits) and len(without_digits.unique()) > 1


@dataclass(frozen=True)
class TextComponents:
    """The directions of a column of free text: ``weight`` (n_buckets,) of the runs, ``axes`` (n_buckets, n_columns) and
    ``centre`` (n_columns,), in float32.
    """

    weight: Array
    axes: Array
    centre: Array

    def __post_init__(self) -> None:
        n_columns = self.axes.shape[1] if self.axes.ndim == 2 else 0
        shapes = (self.weight.shape, self.axes.shape, self.centre.shape)
        finite = all(np.isfinite(part).all() for part in (self.weight, self.axes, self.centre))
        if shapes != ((_BUCKETS,), (_BUCKETS, n_columns), (n_columns,)) or n_columns < 1 or not finite:
            rule = f"components of texts must be finite numbers for {_BUCKETS} buckets"
            raise InvalidParameterError(rule, shapes, "Make the encoding anew from a table.")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TextComponents):
            return NotImplemented
        return self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(self.axes.tobytes())

    def of(self, texts: Any) -> Array:
        """Return the columns of an Arrow array of texts, (n_texts, n_columns)."""
        return np.asarray(_vectors(texts, self.weight.astype(np.float64)) @ self.axes.astype(np.float64) - self.centre)

    def to_dict(self) -> dict[str, Any]:
        """Return three texts, fit for JSON."""
        parts = {"weight": self.weight, "axes": self.axes, "centre": self.centre}
        return {name: base64.b64encode(part.astype("<f4").tobytes()).decode() for name, part in parts.items()}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> TextComponents:
        """Return the components of `to_dict`."""
        names = ("weight", "axes", "centre")
        packed = (base64.b64decode(check_text(plain[name]), validate=True) for name in names)
        weight, axes, centre = (np.frombuffer(part, "<f4").astype(np.float32) for part in packed)
        return cls(weight, axes.reshape(_BUCKETS, -1), centre)


def learn_components(texts: Iterable[str]) -> TextComponents:
    """Return the first principal components of texts, a sample without repetitions."""
    pa = cells.require_arrow()
    sample = pa.array(list(texts), pa.string())
    counts = _runs(sample)
    n_texts, having = counts.shape[0], np.bincount(counts.indices, minlength=_BUCKETS)
    weight = (1 + np.log((1 + n_texts) / (1 + having))).astype(np.float32)
    vectors = _vectors(sample, weight.astype(np.float64))
    mean = np.asarray(vectors.mean(axis=0)).ravel()
    spread = (vectors.T @ vectors).toarray() / n_texts - np.outer(mean, mean)
    _, axes = scipy.linalg.eigh(spread, subset_by_index=(_BUCKETS - N_COLUMNS, _BUCKETS - 1))
    axes = axes[:, ::-1]
    axes = axes * np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(N_COLUMNS)])
    return TextComponents(weight, axes.astype(np.float32), (mean @ axes).astype(np.float32))


def _vectors(texts: Any, weight: Array) -> Any:
    """Return the vectors of texts, a sparse matrix (n_texts, n_buckets) with rows of length one, or zero if empty."""
    import scipy.sparse as sp  # loading a model must not load it

    counts = _runs(texts)
    values = np.log1p(counts.data) * weight[counts.indices]
    row = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
    length = np.sqrt(np.bincount(row, values**2, counts.shape[0]))
    return sp.csr_array((values / length[row], counts.indices, counts.indptr), counts.shape)


def _runs(texts: Any) -> Any:
    """Return how many runs of three bytes of each text fall into each bucket, sparse (n_texts, n_buckets)."""
    import scipy.sparse as sp  # loading a model must not load it

    compute = cells.require_arrow().compute
    small = compute.replace_substring_regex(compute.utf8_lower(texts), r"\s+", " ")
    padded = compute.binary_join_element_wise(" ", small, " ", "")
    _, ends, letters = padded.buffers()
    start = np.frombuffer(ends, np.int32, len(padded) + 1, 4 * padded.offset).astype(np.int64)
    letter = np.frombuffer(letters, np.uint8)[start[0] : start[-1]].astype(np.uint32)
    if letter.size < _RUN:
        return sp.csr_array((len(texts), _BUCKETS))
    row = np.repeat(np.arange(len(texts)), np.diff(start))
    inside = row[: 1 - _RUN] == row[_RUN - 1 :]
    parts = [part * factor for part, factor in zip((letter[:-2], letter[1:-1], letter[2:]), _FACTORS, strict=True)]
    mixed = parts[0] ^ parts[1] ^ parts[2]
    mixed = (mixed ^ mixed >> np.uint32(15)) * np.uint32(0x2C1B3C6D)
    bucket = (mixed >> np.uint32(12)) % np.uint32(_BUCKETS)
    place = row[: 1 - _RUN][inside] * _BUCKETS + bucket[inside]
    found, count = np.unique(place, return_counts=True)
    return sp.csr_array((count.astype(np.float64), (found // _BUCKETS, found % _BUCKETS)), (len(texts), _BUCKETS))


@dataclass(frozen=True, slots=True)
class TextColumn:
    """Free text as a few columns of numbers, all zero where it is missing; if ``indicator``, one more says where."""

    kind: ClassVar[str] = "text"
    name: str
    components: TextComponents
    indicator: bool

    def __post_init__(self) -> None:
        check_text(self.name)
        if not isinstance(self.indicator, bool):
            raise InvalidParameterError("indicator must be True or False", self.indicator, "Make it anew.")

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the columns of numbers."""
        parts = [*(f"text {at + 1}" for at in range(self.components.centre.size)), *["missing"] * self.indicator]
        return tuple(f"{self.name} {part}" for part in parts)

    def write(self, values: Any, out: Array, folds: Array | None = None) -> None:
        """Write cleaned values (n_rows) to ``out`` (n_rows, n_features), which holds zeros."""
        if not isinstance(values, cells.Texts):
            values = cells.by_level(values)
        known = values.at >= 0
        used, place = np.unique(values.at[known], return_inverse=True)
        n_columns = self.components.centre.size
        if used.size:
            found = self.components.of(values.different.take(cells.require_arrow().array(used)))
            out[known, :n_columns] = found[place]
        if self.indicator:
            out[:, n_columns] = ~known
