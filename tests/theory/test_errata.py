"""The corrections of docs/errata.md, each shown by numbers, and the options that docs/theorems.md names."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import numpy as np
import pytest

from rflaf import RBFBasis, RFLAFClassifier, RFLAFRegressor, theory
from rflaf.functions.densities import Gaussian, draw
from rflaf.study.measurements import failure_of_equal_eigenvalues
from rflaf.training.solvers.leverage import Leverage, resample


def test_the_printed_function_is_not_bounded():
    z, basis = np.linspace(-3, 3, 61), RBFBasis(5)
    printed = np.exp(-(z[:, None] - basis.centres) / (2 * basis.h**2))
    squared = np.exp(-((z[:, None] - basis.centres) ** 2) / (2 * basis.h**2))
    np.testing.assert_allclose(basis.values(z), squared, rtol=1e-12)
    assert squared.max() <= 1
    assert printed.max() > 3  # within the grid already, and growing
    assert np.all(np.diff(printed, axis=0) < 0)


def test_only_the_root_of_p_over_q_gives_the_kernel_in_the_mean():
    rng = np.random.default_rng(0)
    pool, Z = draw(Gaussian(), 3, 12, rng), rng.standard_normal((5, 12))
    leverage = Leverage(rng.uniform(0.5, 4, 12), lam=0.1)
    K, total, n_draws = Z @ Z.T / 12, np.zeros((5, 5)), 3000
    for _ in range(n_draws):
        kept, scores = resample(pool, leverage, 4, rng)
        drawn = Z[:, scores.kept] * kept.importance
        total += drawn @ drawn.T / 4
    np.testing.assert_allclose(total / n_draws, K, atol=0.05)
    q = leverage.probabilities
    as_printed = sum(q[i] * np.outer(Z[:, i], Z[:, i]) / q[i] for i in range(12))  # E_q[ (1/q) z z' ]
    np.testing.assert_allclose(as_printed, 12 * K, rtol=1e-12)


@pytest.mark.parametrize(("rank", "delta"), [(10**7, 0.001), (10**9, 0.1)])
def test_five_fails_where_eight_holds(rank, delta):
    assert failure_of_equal_eigenvalues(rank, delta, theory.PAPER_CONSTANT) > delta
    assert failure_of_equal_eigenvalues(rank, delta, 8.0) < delta


@pytest.mark.parametrize("estimator", [RFLAFRegressor, RFLAFClassifier])
def test_the_table_of_theorems_names_every_option(estimator):
    page = (Path(__file__).parent.parent.parent / "docs" / "theorems.md").read_text(encoding="utf-8")
    named = set(re.findall(r"\w+", " ".join(line.split("|")[1] for line in page.splitlines() if line.startswith("|"))))
    assert set(inspect.signature(estimator).parameters) - named == set()
