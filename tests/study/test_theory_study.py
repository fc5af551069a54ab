"""The studies of the theory, small: kernels whose answers are known, events counted, orders and gains measured."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rflaf import theory
from rflaf.study import measurements, theory_study
from rflaf.study.datasets import Dataset, load
from rflaf.study.kernels import (
    SCHEMES,
    CoordinateKernel,
    FeatureKernel,
    exponential,
    finite_rank,
    polynomial,
    spread,
    worst_for_plain,
)
from rflaf.study.measurements import (
    bisect_width,
    count_events,
    exact_width,
    failure_of_equal_eigenvalues,
    learned_kernel,
    least_width,
    mass_of,
    measure_gain,
    measure_order,
    spectra,
    tilted_kernels,
)

TINY = theory_study.Effort(20, 2, 2, 30, 60, 10, ("teacher",))


def as_features(kernel: CoordinateKernel, n_rows: int) -> FeatureKernel:
    """The same kernel with equal probabilities: every feature is repeated as often as it is likely."""
    copies = np.round(kernel.p * 64).astype(int)
    walsh = np.array([[1.0]])
    while walsh.shape[0] < n_rows:
        walsh = np.block([[walsh, walsh], [walsh, -walsh]])
    columns = walsh[:, : kernel.mu.size] * np.sqrt(kernel.mu / kernel.p)
    return FeatureKernel(np.repeat(columns, copies, axis=1))


@pytest.fixture(scope="module")
def dyadic() -> CoordinateKernel:
    """Four eigenvalues whose probabilities are whole sixty-fourths."""
    return CoordinateKernel(np.array([0.5, 0.25, 0.125, 0.0625]), np.array([32, 16, 8, 8]) / 64)


def test_a_kernel_of_rows_is_that_of_its_coordinates(dyadic):
    rows = as_features(dyadic, 8)
    assert rows.eigenvalues[:4] == pytest.approx(dyadic.eigenvalues, abs=1e-12)
    assert rows.eigenvalues[4:] == pytest.approx(0, abs=1e-12)
    assert rows.bound() == pytest.approx(dyadic.bound())
    scores = np.repeat(dyadic.leverage(0.1), np.round(dyadic.p * 64).astype(int))
    assert rows.leverage(0.1) == pytest.approx(scores)
    assert spread(rows, 0.1) == pytest.approx(spread(dyadic, 0.1))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_what_is_counted_is_what_the_lemmas_say(dyadic, scheme):
    """Deviation and excess of a draw of rows, against the functions of `rflaf.theory` on explicit matrices."""
    kernel, lam, n = as_features(dyadic, 8), 0.05, 8
    m = kernel.Z.shape[1]
    seed = 3
    q = np.full(m, 1 / m)
    if scheme == "leverage":
        q = kernel.leverage(lam) / kernel.leverage(lam).sum()
    counts = np.random.default_rng(seed).multinomial(40, q)
    K = kernel.Z @ kernel.Z.T / m
    K_hat = (kernel.Z * (counts / (40 * m * q))) @ kernel.Z.T
    off = kernel.deviations(40, scheme, lam, 1, np.random.default_rng(seed))
    assert off[0] == pytest.approx(theory.gram_deviation(K, K_hat, lam))
    excess = kernel.excesses(40, scheme, lam, 1, np.random.default_rng(seed))
    assert lam * excess[0] == pytest.approx(theory.worst_risk(K, K_hat, lam))
    assert n == K.shape[0]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_coordinates_fail_as_often_as_is_computed(scheme):
    kernel, rng = worst_for_plain(polynomial(2.0, 300)), np.random.default_rng(0)
    for s in (60, 120, 240):
        failed = float(np.mean(kernel.excesses(s, scheme, 0.01, 4000, rng) > 2))
        assert failed == pytest.approx(kernel.failure(s, scheme, 0.01), abs=0.04)


@given(t=st.floats(1.0, 3.0), lam=st.floats(1e-3, 0.1), scheme=st.sampled_from(SCHEMES), seed=st.integers(0, 2**31 - 1))
@settings(max_examples=30)
def test_many_features_bring_every_event_about(t, lam, scheme, seed):
    kernel, rng = worst_for_plain(polynomial(t, 50)), np.random.default_rng(seed)
    assert kernel.deviations(10**8, scheme, lam, 3, rng).max() < 0.05
    assert kernel.excesses(10**8, scheme, lam, 3, rng).max() <= 1.05
    assert kernel.failure(10**8, scheme, lam) < 1e-6


def test_a_width_is_bisected_to_a_per_cent():
    for least in (1, 2, 3, 17, 1000, 123_456):
        found = bisect_width(lambda s, least=least: s >= least)
        assert max(least, 2) <= found <= 1.011 * max(least, 2) + 1


@pytest.mark.parametrize("scheme", SCHEMES)
def test_widths_drawn_and_computed_agree(scheme):
    kernel, rng = worst_for_plain(polynomial(2.0, 500)), np.random.default_rng(1)
    drawn = least_width(kernel, scheme, 0.003, 0.1, 400, rng)
    assert drawn == pytest.approx(exact_width(kernel, scheme, 0.003, 0.1), rel=0.15)


@pytest.mark.parametrize(
    ("name", "mu", "lam"),
    [("rank 20", finite_rank(20), 0.01), ("0.7^i", exponential(0.7, 60), 0.003), ("i^-2", polynomial(2.0, 500), 0.005)],
)
def test_the_lemmas_hold_as_often_as_promised(name, mu, lam):
    for counted in count_events(name, worst_for_plain(mu), lam, 0.1, 200, np.random.default_rng(0)):
        assert counted.s == theory.width(
            mass_of(worst_for_plain(mu), counted.scheme, lam), counted.effective_dimension, 0.1
        )
        assert counted.deviation_held >= counted.promised
        assert counted.risk_held >= counted.promised
        assert counted.rigorous > counted.s
        assert 0 < counted.risk_constant < 5


def test_the_constant_of_the_paper_fails_for_large_ranks_and_the_rigorous_one_does_not():
    assert failure_of_equal_eigenvalues(10**3, 0.1, 5.0) < 0.1
    assert failure_of_equal_eigenvalues(10**9, 0.1, 5.0) > 0.1
    assert failure_of_equal_eigenvalues(10**9, 0.1, 32 / 3) < 1e-6
    kernel = worst_for_plain(finite_rank(200))
    s = theory.width(200 / 1.001, 200 / 1.001, 0.1, 2.0)
    expected = kernel.failure(s, "plain", 1e-3 / 200)
    assert failure_of_equal_eigenvalues(200, 0.1, 2.0) == pytest.approx(expected, rel=1e-6)


def test_orders_are_those_of_the_tables_up_to_logarithms():
    rng = np.random.default_rng(0)
    by_name = {spectrum.name: spectrum for spectrum in spectra(20_000)}
    for name, scheme, power in (("i^-2", "plain", 1.0), ("i^-3", "leverage", 1 / 3), ("rank 20", "leverage", 0.0)):
        order = measure_order(by_name[name], scheme, 3, 0.1, 60, 3, rng)
        assert order.predicted == pytest.approx(power)
        assert order.low <= order.slope <= order.high
        assert order.slope == pytest.approx(power, abs=0.15)
        assert order.deep == pytest.approx(power, abs=0.05)
        assert order.of_theorem < 1


def test_leverage_gains_where_scores_spread_and_never_more():
    gains = [measure_gain(name, kernel, 1e-3, 0.1, 60, np.random.default_rng(0)) for name, kernel in tilted_kernels()]
    assert [gain.spread for gain in gains] == sorted(gain.spread for gain in gains)
    assert gains[-1].ratio > 10 > 2 > gains[0].ratio
    assert all(gain.ratio < 1.2 * gain.spread for gain in gains)


def test_a_learned_kernel_has_features_of_mean_square_one():
    table = load("teacher", "standard")
    kernel = learned_kernel(table.X_train, table.y_train, 40, 80, np.random.default_rng(0))
    assert kernel.Z.shape == (40, 80)
    assert np.mean(kernel.Z**2) == pytest.approx(1.0, rel=1e-3)


@pytest.mark.slow
def test_all_evidence_is_gathered_written_and_drawn(tmp_path, monkeypatch):
    monkeypatch.setattr(measurements, "spectra", lambda: spectra(2000)[2:4])
    monkeypatch.setattr(theory_study, "load", small_teacher)
    monkeypatch.setattr(theory_study, "QUICK", TINY)
    said: list[str] = []
    written = theory_study.study("quick", tmp_path / "out", lambda done, total, line: said.append(line))
    assert {path.name for path in written} == {"evidence.json", "evidence.md", "orders.png", "orders.svg", "orders.pdf"}
    assert all(path.stat().st_size > 500 for path in written)
    record = json.loads((tmp_path / "out" / "evidence.json").read_text())
    assert {entry["kernel"] for entry in record["counts"]} == {"rank 20", "0.7^i", "i^-1.5", "i^-2", "teacher"}
    assert {entry["spectrum"] for entry in record["orders"]} == {"i^-1.5", "i^-2"}
    page = (tmp_path / "out" / "evidence.md").read_text()
    assert page.count("\n## ") == 3
    assert "gains: teacher" in said
    assert theory_study.study("quick", tmp_path / "out", lambda done, total, line: said.append(line)) == written
    assert said[-1] == "the evidence of quick is in out already"


def test_a_table_that_is_not_there_is_left_out_and_said_so(monkeypatch, tmp_path):
    monkeypatch.setenv("RFLAF_DATA_DIR", str(tmp_path))
    monkeypatch.setattr(theory_study, "load", refuse)
    said: list[str] = []
    assert list(theory_study._tables(("protein",), said.append)) == []
    assert said[0].startswith("protein is left out: ")


def refuse(name: str, preprocessing: str) -> Dataset:
    raise theory_study.DataNotFoundError(name)


def small_teacher(name: str, preprocessing: str) -> Dataset:
    table = load(name, preprocessing)
    parts = (part[:300] for part in (table.X_train, table.y_train, table.X_test, table.y_test))
    return Dataset(table.name, table.preprocessing, table.task, *parts, table.columns, table.truth)
