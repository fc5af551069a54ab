"""Values of a header, read by what they have to be, and the few classes that a model file may name."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from rflaf.errors import Array
from rflaf.estimators.choices import GreedySelection, LeverageSampling, SharedActivation
from rflaf.functions.bases import BSplineBasis, RBFBasis
from rflaf.functions.densities import Cauchy, Gaussian, OrthogonalGaussian, SobolGaussian, StudentT
from rflaf.functions.losses import (
    Gamma,
    Huber,
    Logistic,
    Pinball,
    Poisson,
    Quantiles,
    Softmax,
    Squared,
    SquaredHinge,
    Tweedie,
)  # fmt: skip
from rflaf.functions.smooth_bases import FixedActivation, PolynomialBasis

from .envelope import MOST_TOKENS

ESTIMATORS = {name: name for name in ("RFLAFRegressor", "RFLAFClassifier", "RandomActivationFeatures")}
LOSSES = {kind.__name__: kind for kind in (
    Squared, Huber, Pinball, Quantiles, Poisson, Tweedie, Gamma, Logistic, Softmax, SquaredHinge,
)}  # fmt: skip
DENSITIES = {kind.__name__: kind for kind in (Gaussian, StudentT, Cauchy, OrthogonalGaussian, SobolGaussian)}
BASES = {kind.__name__: kind for kind in (BSplineBasis, RBFBasis, PolynomialBasis, FixedActivation)}
CHOICES = {kind.__name__: kind for kind in (LeverageSampling, GreedySelection, SharedActivation)}
PARTS: dict[str, Any] = {**LOSSES, **DENSITIES, **BASES, **CHOICES}  # what may be an argument of an estimator
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Node:
    """A value of the header and where it stands, read by what it has to be."""

    value: Any
    arrays: Mapping[str, Any]
    at: str

    def __getitem__(self, name: str) -> Node:
        if not isinstance(self.value, dict) or name not in self.value:
            raise ValueError(f"{self.at} has no {name!r}")
        return Node(self.value[name], self.arrays, f"{self.at}.{name}")

    def get(self, name: str) -> Node:
        """The value of a name; none of files that were written before there was such a name."""
        known = isinstance(self.value, dict) and name in self.value
        return self[name] if known else Node(None, self.arrays, f"{self.at}.{name}")

    def refuse(self, rule: str) -> ValueError:
        return ValueError(f"{self.at} must be {rule}")

    def items(self, most: int = MOST_TOKENS) -> list[Node]:
        if not isinstance(self.value, list) or len(self.value) > most:
            raise self.refuse(f"a list of at most {most}")
        return [Node(item, self.arrays, f"{self.at}[{number}]") for number, item in enumerate(self.value)]

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

    def maybe(self, read: Callable[[Node], T]) -> T | None:
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
