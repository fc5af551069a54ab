"""Public data sets as the paper's experiments use them, and synthetic targets of the paper's class.

>>> load("teacher", random_state=0).X_train.shape
(8000, 6)

A file is read from ``RFLAF_DATA_DIR/<data set>/``, else from the user's cache, else downloaded to that cache (extra
``datasets``). Files keep the names of their publishers; no code in them is ever executed.

| name | rows | columns | target | publisher |
| --- | --- | --- | --- | --- |
| protein | 45,730 | 9 | RMSD of a decoy | UCI 265 |
| adult | 32,561 | 100, one-hot | income above 50,000 | UCI 2, `adult.data` only |
| cifar10 | 50,000 + 10,000 | 3,072 | ten classes | Toronto |
| workloads | 200,000 | 6 | average of a range query | UCI 493, range queries |
| workloads-radius | 10,000 | 3 | count of a radius query | UCI 493, radius queries |
| kin8nm | 8,192 | 8 | distance of a robot arm | Delve, through OpenML |
| powerplant | 9,568 | 4 | energy output | UCI 294 |
| teacher | 10,000 | 6 | f*(x) = E_w[sigma(w.x) v(w)] plus noise | synthetic, known truth |

Preprocessings:

- ``"paper"``: numbers standardised over *all* rows, then all inputs divided by 10 (7.5 for workloads); targets divided
  by 10 (100 for workloads), or standardised if the paper does not use the data set. CIFAR-10 pixels are
  (x/255 - 1/2) / 65. The scaler sees the test rows, as in the published experiments.
- ``"standard"``: inputs and numeric targets standardised by the training rows; pixels by channel.

Indicators of a category are not standardised. Both split the same rows, 80 % to fit and 20 % to test, by one fixed
seed; CIFAR-10 is published with a split.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rflaf.errors import Array, InvalidParameterError
from rflaf.functions.densities import Density, resolve_density

from . import preparation
from .preparation import ACTIVATIONS, PREPROCESSINGS, Dataset, Teacher, bump, triangle, wave
from .published_files import FILES, READERS, read_batch, read_cifar10

__all__ = [
    "ACTIVATIONS", "NAMES", "PREPROCESSINGS", "Dataset", "Teacher", "bump", "load", "read_batch", "teacher",
    "triangle", "wave",
]  # fmt: skip
NAMES = (*FILES, "teacher")


def load(name: str, preprocessing: str = "paper", *, random_state: int = 0) -> Dataset:
    """Load a data set by name, prepared and split; ``random_state`` fixes the split (and all of ``teacher``).

    >>> load("protien")
    Traceback (most recent call last):
    rflaf.errors.InvalidParameterError: the data set must be one of 'protein', 'adult', 'cifar10', 'workloads',
    'workloads-radius', 'kin8nm', 'powerplant', 'teacher'; got 'protien'. Pass one of these names.
    """
    if name not in NAMES:
        rule = f"the data set must be one of {', '.join(map(repr, NAMES))}"
        raise InvalidParameterError(rule, name, "Pass one of these names.")
    if preprocessing not in PREPROCESSINGS:
        remedy = "Use 'paper' to compare with the paper."
        raise InvalidParameterError("preprocessing must be 'paper' or 'standard'", preprocessing, remedy)
    if name == "teacher":
        return teacher(preprocessing=preprocessing, random_state=random_state)
    if name == "cifar10":
        return preparation.prepare_pixels(preprocessing, *read_cifar10())
    X, y, columns = READERS[name]()
    return preparation.prepare(name, preprocessing, X, y, columns, random_state)


def teacher(
    n_samples: int = 10_000,
    n_features: int = 6,
    *,
    activation: str | Callable[[Array], Array] = "wave",
    spectrum: str | Density = "gaussian",
    n_atoms: int = 1_000,
    noise: float = 0.05,
    preprocessing: str = "standard",
    random_state: int = 0,
) -> Dataset:
    """Draw rows of the paper's target class, f*(x) = E_w[sigma(w.x) v(w)], with x ~ N(0, I) and known truth.

    w follows the density ``spectrum`` divided by sqrt(n_features), so that w . x has unit spread if it is Gaussian;
    ``n_atoms`` draws represent the density. v(w) is a Lipschitz wave along a random axis with E[v^2] = 1, as the class
    asks; f* then has the small deviation of an average. ``noise`` is in standard deviations of f*. Both
    preprocessings leave inputs and targets as drawn: targets of unit deviation would have E[v^2] in the thousands.

    >>> data = teacher(100, 2, activation="triangle", noise=0.0)
    >>> bool(np.allclose(data.truth(data.X_test), data.y_test))
    True
    """
    if isinstance(activation, str) and activation not in ACTIVATIONS:
        raise InvalidParameterError(
            f"activation must be one of {', '.join(map(repr, ACTIVATIONS))}, or a function", activation, "Use 'wave'."
        )
    sigma = ACTIVATIONS[activation] if isinstance(activation, str) else activation
    rng = np.random.default_rng(random_state)
    X = rng.standard_normal((n_samples, n_features)).astype(np.float32)
    W = resolve_density(spectrum).sample(n_features, n_atoms, rng) / np.sqrt(n_features)
    axis = rng.standard_normal(n_features)
    v = np.sin(2 * axis @ W + rng.uniform(0, 2 * np.pi))
    v /= np.sqrt(np.mean(v**2))
    truth = Teacher(W, v, sigma)
    f = truth(X)
    y = f + noise * f.std() * rng.standard_normal(n_samples)
    train, test = preparation.split(n_samples, random_state)
    names = tuple(f"x{i}" for i in range(n_features))
    return Dataset("teacher", preprocessing, "regression", X[train], y[train], X[test], y[test], names, truth)
