"""The paper's optimisers: gradients, splines, and whole runs beside PyTorch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rflaf.functions.bases import Basis, RBFBasis
from rflaf.study import optimisers
from rflaf.study.optimisers import Adam, CrossEntropy, MeanSquare, Schedule, Table, Weights
from rflaf.study.splines import PublishedSpline, QuadraticSpline

BASES = [RBFBasis(17, (-2.0, 2.0)), QuadraticSpline(17), PublishedSpline(17)]
each_basis = pytest.mark.parametrize("basis", BASES, ids=lambda basis: type(basis).__name__)
each_loss = pytest.mark.parametrize("loss", [MeanSquare(), CrossEntropy()], ids=lambda loss: type(loss).__name__)


def problem(loss, n_rows=40, n_features=3, n_components=7):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, n_features)).astype(np.float32) / 2
    W = rng.standard_normal((n_features, n_components))
    if isinstance(loss, MeanSquare):
        return X, W, np.sin(X[:, :1].astype(float))
    return X, W, np.eye(3)[np.digitize(X[:, 0], [-0.2, 0.2])]


def objective(basis, X, W, y, weights, importance, loss, schedule):
    """The penalised loss, written out."""
    z = basis.values(X.astype(float) @ W) @ weights.a
    value = loss.value(z @ (importance[:, None] * weights.v), y)
    a, v = weights.a, weights.v
    gap = np.sum(a**2) / np.sqrt(a.size) - np.sum(v**2) / np.sqrt(len(v))
    return value + schedule.balance * gap**2 + schedule.ridge * len(v) * np.sum(v**2)


# --- bases ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_basis", [5, 17, 33, 65])
@pytest.mark.parametrize("kind", [QuadraticSpline, PublishedSpline])
def test_the_pieces_of_a_spline_are_its_values(kind, n_basis):
    basis = kind(n_basis)
    assert isinstance(basis, Basis)
    z = np.linspace(-3, 3, 1001) + 1e-4
    pieces = basis.pieces()
    u = np.clip(pieces.cell_coordinate(z), -0.5, pieces.n_cells - 0.5 - 1e-12)
    k = np.rint(u).astype(int)
    powers = (u - k)[:, None] ** np.arange(4)
    by_pieces = np.einsum("rip,rp->ri", pieces.coefficients[k], powers)
    assert np.allclose(by_pieces, basis.values(z), atol=1e-9 * np.abs(by_pieces).max())


@pytest.mark.parametrize("kind", [QuadraticSpline, PublishedSpline])
def test_the_slopes_of_a_spline_are_its_differences(kind):
    basis = kind(17)
    z = np.random.default_rng(0).uniform(-2.5, 2.5, 200)
    step = 1e-6
    differences = (basis.values(z + step) - basis.values(z - step)) / (2 * step)
    assert np.allclose(basis.slopes(z), differences, atol=1e-4 * np.abs(differences).max())


def test_the_spline_as_meant_is_continuous_non_negative_and_sums_to_four_thirds():
    basis = QuadraticSpline(17)
    z = np.linspace(-2, 2, 4001)
    values = basis.values(z)
    assert values.min() >= 0
    assert np.isclose(values.max(), 1)
    assert np.abs(np.diff(values, axis=0)).max() < 0.01
    assert np.allclose(values[(z > -1.7) & (z < 1.9)].sum(axis=1), 4 / 3)
    assert np.allclose(basis.penalty() @ np.arange(17.0), 0)


@pytest.mark.parametrize(("n_basis", "lowest"), [(17, -62), (33, -296), (65, -1278)])
def test_the_spline_as_published_dips_as_deep_as_it_was_seen_to(n_basis, lowest):
    assert round(PublishedSpline(n_basis).values(np.linspace(-2, 2.5, 20_001)).min()) == lowest


# --- gradients -----------------------------------------------------------------------------------------------


@each_basis
@each_loss
def test_outputs_are_those_of_the_formula(basis, loss):
    X, W, y = problem(loss)
    weights = optimisers.start(17, 7, y.shape[1], np.random.default_rng(1))
    importance = np.linspace(0.5, 2, 7)
    f = optimisers.outputs(Table.of(basis).cells(X, W), Table.of(basis), weights, importance)
    expected = (basis.values(X.astype(float) @ W) @ weights.a) @ (importance[:, None] * weights.v)
    assert np.allclose(f, expected, atol=1e-4 * np.abs(expected).max())


@each_basis
@each_loss
@pytest.mark.parametrize("schedule", [Schedule("sgd", 1, balance=1.0), Schedule("sgd", 1, ridge=0.01)])
def test_the_gradient_is_the_difference_of_the_objective(basis, loss, schedule):
    X, W, y = problem(loss)
    weights = optimisers.start(17, 7, y.shape[1], np.random.default_rng(1))
    importance = np.linspace(0.5, 2, 7)
    table = Table.of(basis)
    found = optimisers.gradients(table.cells(X, W), y.astype(np.float32), table, weights, importance, loss, schedule)
    for name in ("a", "v"):
        numeric = np.empty_like(getattr(weights, name))
        for index in np.ndindex(numeric.shape):
            moved = []
            for step in (1e-5, -1e-5):
                shifted = Weights(weights.a.copy(), weights.v.copy())
                getattr(shifted, name)[index] += step
                moved.append(objective(basis, X, W, y, shifted, importance, loss, schedule))
            numeric[index] = (moved[0] - moved[1]) / 2e-5
        assert np.allclose(getattr(found, name), numeric, atol=2e-4 * np.abs(numeric).max())


# --- whole runs ----------------------------------------------------------------------------------------------


def test_training_lowers_the_loss_and_is_fixed_by_its_seed():
    loss, basis = MeanSquare(), BASES[0]
    X, W, y = problem(loss, n_rows=300)
    table = Table.of(basis)
    u = table.cells(X, W)

    def run():
        rng = np.random.default_rng(3)
        weights, trace = optimisers.start(17, 7, 1, rng), []
        schedule = Schedule("sgd", 30, rate=1e-2, batch=32, balance=1.0)
        for finite in optimisers.train(u, y, table, weights, np.ones(7), loss, schedule, rng):
            assert finite
            trace.append(loss.value(optimisers.outputs(u, table, weights, np.ones(7)), y))
        return trace

    trace = run()
    assert len(trace) == 30
    assert trace[-1] < 0.5 * trace[0]
    assert trace == run()


def test_a_run_that_diverges_says_so():
    loss, table = MeanSquare(), Table.of(BASES[0])
    X, W, y = problem(loss)
    rng = np.random.default_rng(0)
    weights, schedule = optimisers.start(17, 7, 1, rng), Schedule("sgd", 50, rate=1.0, batch=8)
    with np.errstate(over="ignore", invalid="ignore"):
        assert not all(optimisers.train(table.cells(X, W), y, table, weights, np.full(7, 70.0), loss, schedule, rng))


@each_basis
@each_loss
@pytest.mark.parametrize("optimiser", ["sgd", "adam"])
@pytest.mark.parametrize("leverage", [False, True])
def test_a_run_is_that_of_pytorch(basis, loss, optimiser, leverage):
    """Independent: automatic derivatives of the formula, PyTorch's optimisers, the same batches."""
    torch = pytest.importorskip("torch")
    X, W, y = problem(loss, n_rows=90)
    importance = np.linspace(0.5, 2, 7) if leverage else np.ones(7)
    schedule = Schedule(optimiser, 3, rate=1e-3, batch=32, balance=0.0 if leverage else 1.0)
    schedule = replace(schedule, ridge=90**-0.5 if leverage else 0.0)
    table, rng = Table.of(basis), np.random.default_rng(5)
    weights = optimisers.start(17, 7, y.shape[1], rng)

    B = torch.tensor(basis.values(X.astype(float) @ W))
    a, v = (torch.tensor(part.copy(), requires_grad=True) for part in (weights.a, weights.v))
    q, targets = torch.tensor(importance), torch.tensor(y)
    kind = torch.optim.SGD if optimiser == "sgd" else torch.optim.Adam
    theirs = kind([a, v], lr=schedule.rate)
    batches = np.random.default_rng(7)
    for _ in range(schedule.epochs):
        order = batches.permutation(90)
        for first in range(0, 90, 32):
            rows = order[first : first + 32]
            f = (B[rows] @ a * q) @ v
            if isinstance(loss, MeanSquare):
                value = torch.nn.functional.mse_loss(f, targets[rows])
            else:
                value = torch.nn.functional.cross_entropy(f, targets[rows].argmax(1))
            gap = (a**2).sum() / 17**0.5 - (v**2).sum() / 7**0.5
            value = value + schedule.balance * gap**2 + schedule.ridge * 7 * (v**2).sum()
            theirs.zero_grad()
            value.backward()
            theirs.step()

    assert all(
        optimisers.train(table.cells(X, W), y, table, weights, importance, loss, schedule, np.random.default_rng(7))
    )
    for ours, other in ((weights.a, a), (weights.v, v)):
        other = other.detach().numpy()
        assert np.allclose(ours, other, atol=3e-4 * np.abs(other).max())


def test_adam_moves_by_its_rate_at_first():
    weights = Weights(np.zeros(2), np.zeros((1, 1)))
    Adam(0.1)(weights, Weights(np.array([5.0, -0.01]), np.array([[1.0]])))
    assert np.allclose(weights.a, [-0.1, 0.1], atol=1e-6)
    assert np.allclose(weights.v, -0.1)


def test_the_start_has_the_papers_variances():
    weights = optimisers.start(400, 900, 3, np.random.default_rng(0))
    assert np.isclose(weights.a.std(), 1 / 20, rtol=0.15)
    assert np.isclose(weights.v.std(), 1 / 30, rtol=0.05)
