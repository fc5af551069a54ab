"""What is known of the numbers of a column: how many, their total and range, and whether they rise from row to row.

Those of chunks add up to those of the column, to the last bit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from rflaf.errors import Array

_SMALLEST = 1074  # floats are multiples of 2**-1074
_LARGEST = 1000  # bits of the integer part of numbers that are summed by slices
_FIRST = 100  # values that are looked at before all others
_TILE = 14  # bits of the number of values that are summed together, so that they stay in the cache


@dataclass(frozen=True, slots=True)
class Moments:
    """Number, total and range of values, and whether all are whole numbers. Adds up over chunks.

    ``total`` is exact, in units of 2**-1074, so the mean depends neither on the chunks nor on their order.
    """

    count: int = 0
    total: int = 0
    low: float = math.inf
    high: float = -math.inf
    whole: bool = True

    @classmethod
    def of(cls, values: Array, counts: Array | None = None) -> Moments:
        """Return the moments of ``values`` (k,) that occur ``counts`` (k,) times, once by default."""
        if not values.size:
            return cls()
        count = values.size if counts is None else int(counts.sum())
        low, high = float(values.min()), float(values.max())
        size = max(abs(low), abs(high))
        if not math.isfinite(size):
            return cls(count, 0, low, high, False)
        whole = all(bool(np.all(some == np.floor(some))) for some in (values[:_FIRST], values))
        if whole and size * count <= 2**53:  # floats hold every sum of some of them
            total = int((values if counts is None else values * counts).sum(dtype=np.float64)) << _SMALLEST
        else:
            total = _total(values, size) if counts is None else _total_by_exponent(values, counts)
        return cls(count, total, low, high, whole)

    def __add__(self, other: Moments) -> Moments:
        return Moments(
            self.count + other.count,
            self.total + other.total,
            min(self.low, other.low),
            max(self.high, other.high),
            self.whole and other.whole,
        )

    @property
    def finite(self) -> bool:
        """Whether no value is infinite."""
        return not self.count or (math.isfinite(self.low) and math.isfinite(self.high))

    @property
    def mean(self) -> float:
        """The mean, correctly rounded; NaN among infinite values, 0 of none."""
        if not self.count:
            return 0.0
        return self.total / (self.count << _SMALLEST) if self.finite else math.nan


def _total(values: Array, size: float) -> int:
    """Return the exact sum of values of at most ``size``, in units of 2**-1074.

    Of values below 2**t, (x + 2**s) - 2**s with s = t + 15 are the bits of x above 2**(s - 53): floats hold the sum of
    2**14 of them without rounding. What is left of x is exact, too, and below 2**(s - 53): the next slice.
    """
    top = math.frexp(size)[1]
    if top > _LARGEST:
        return _total_by_exponent(values)
    total, n_tile = 0, 2**_TILE
    slices, rest = np.empty(n_tile), np.empty(n_tile)
    for start in range(0, values.size, n_tile):
        left, bits = np.asarray(values[start : start + n_tile], np.float64), top
        bits_of, after = slices[: left.size], rest[: left.size]
        while left.any():
            at = max(bits + _TILE + 1, 52 - _SMALLEST)
            np.add(left, 2.0**at, out=bits_of)
            np.subtract(bits_of, 2.0**at, out=bits_of)
            total += _in_units(float(bits_of.sum()))
            left = np.subtract(left, bits_of, out=after)
            bits = at - 53
    return total


def _in_units(value: float) -> int:
    """Return a number in units of 2**-1074."""
    over, under = value.as_integer_ratio()
    return over << (_SMALLEST + 1 - under.bit_length())


def _total_by_exponent(values: Array, counts: Array | None = None) -> int:
    """Return the exact sum of values times counts, of at most 2**26 rows, in units of 2**-1074.

    Halves of the mantissas, 27 bits each, are summed per exponent: floats hold these sums without rounding.
    """
    mantissa, exponent = np.frexp(np.asarray(values, np.float64))
    whole, shift = np.ldexp(mantissa, 53).astype(np.int64), exponent.astype(np.int64) - 53 + _SMALLEST
    whole >>= np.maximum(-shift, 0)  # zeros of numbers below the normal ones
    shift = np.maximum(shift, 0)
    total = 0
    for bits, half in ((27, whole >> 27), (0, whole & (2**27 - 1))):
        sums = np.bincount(shift, half if counts is None else half * counts)
        total += sum(int(sums[at]) << (int(at) + bits) for at in np.flatnonzero(sums))
    return total


@dataclass(frozen=True, slots=True)
class Order:
    """Whether whole numbers rise from row to row, with the first and last of them."""

    first: float = math.nan
    last: float = math.nan
    rising: bool = True

    @classmethod
    def of(cls, values: Array) -> Order:
        if not values.size:
            return cls()
        rising = all(bool(np.all(some[1:] > some[:-1])) for some in (values[:_FIRST], values))
        return cls(float(values[0]), float(values[-1]), rising)

    def __add__(self, other: Order) -> Order:
        if math.isnan(self.first) or math.isnan(other.first):
            return other if math.isnan(self.first) else self
        rising = self.rising and other.rising and other.first > self.last
        return Order(self.first, other.last, rising)
