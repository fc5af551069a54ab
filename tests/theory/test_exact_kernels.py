"""Kernels in closed form against quadrature and draws, their leverage function, and the model of infinite width."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rflaf import LeverageSampling, RBFBasis, RFLAFClassifier, RFLAFRegressor, load, save, theory
from rflaf.errors import AssumptionWarning, InvalidParameterError
from rflaf.functions.densities import Directions, Gaussian
from rflaf.theory import LeverageDensity, RBFKernel
from rflaf.theory import kernels as module

pytestmark = pytest.mark.usefixtures("one_blas_thread")
BASES = [RBFBasis(5, (-1.0, 2.0), 0.7), RBFBasis(16), RBFBasis(6, (1.0, 4.0))]


def kernel_on(basis: RBFBasis, seed: int = 0, **scaling) -> RBFKernel:
    return RBFKernel(basis, np.random.default_rng(seed).standard_normal(basis.n_basis), **scaling)


def by_quadrature(kernel: RBFKernel, u, v, n_nodes: int = 240) -> float:
    """E[sigma(w.u) sigma(w.v)] by Gauss-Hermite nodes for two independent normal numbers."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(n_nodes)
    weights = weights / weights.sum()
    length = np.linalg.norm(u)
    along = v @ u / length
    across = np.sqrt(max(v @ v - along**2, 0.0))
    first = kernel.activation(length * nodes)
    second = kernel.activation(along * nodes[:, None] + across * nodes)
    return float(np.einsum("i,j,i,ij->", weights, weights, first, second, optimize=True))


# The closed form


@pytest.mark.parametrize("basis", BASES, ids=str)
def test_the_closed_form_is_the_integral_in_two_dimensions(basis):
    kernel, rng = kernel_on(basis), np.random.default_rng(1)
    U = rng.standard_normal((3, 3)) * 0.5
    K = kernel(U)
    for i in range(3):
        for j in range(3):
            assert K[i, j] == pytest.approx(by_quadrature(kernel, U[i], U[j]), abs=1e-10)


@pytest.mark.parametrize("basis", BASES, ids=str)
def test_the_diagonal_is_an_integral_in_one_dimension(basis):
    kernel = kernel_on(basis)
    nodes, weights = np.polynomial.hermite_e.hermegauss(240)
    for length in (0.1, 0.5, 1.0):
        expected = weights @ kernel.activation(length * nodes) ** 2 / weights.sum()
        assert kernel.diagonal([[0.0, length]])[0] == pytest.approx(expected, abs=1e-10)
        assert kernel([[0.0, length]])[0, 0] == kernel.diagonal([[0.0, length]])[0]


def test_a_million_draws_agree_within_their_error():
    kernel, rng = kernel_on(RBFBasis(16), center=0.3, scale=np.array([0.5, 2.0, 1.0])), np.random.default_rng(2)
    X = rng.standard_normal((3, 3))
    total, squares, n_draws = np.zeros((3, 3)), np.zeros((3, 3)), 10**6
    for _ in range(10):
        Z = kernel.features(X, rng.standard_normal((3, n_draws // 10)))
        products = Z[:, None] * Z
        total += products.sum(axis=2)
        squares += (products**2).sum(axis=2)
    mean = total / n_draws
    error = np.sqrt((squares / n_draws - mean**2) / n_draws)
    assert np.all(np.abs(kernel(X) - mean) < 4.5 * error)
    assert np.max(error) < 0.01 * np.max(mean)


@given(n_basis=st.integers(2, 70), low=st.floats(-4, 2), length=st.floats(0.5, 8), seed=st.integers(0, 10**6))
@settings(max_examples=30)
def test_steps_sum_the_exponentials(n_basis, low, length, seed):
    basis = RBFBasis(n_basis, (low, low + length))
    rng = np.random.default_rng(seed)
    a, c, h2 = rng.standard_normal(n_basis), basis.centres, basis.h**2
    U, V = rng.standard_normal((2, 3, 2))
    A, B, C = np.sum(U**2, axis=1)[:, None] + h2, np.sum(V**2, axis=1) + h2, U @ V.T
    D = A * B - C**2
    parts = a, c, B / (2 * D), A / (2 * D), C / D
    slow = module.sum_of_exponentials(*parts)
    size = module.sum_of_exponentials(np.abs(a), *parts[1:])
    if (np.max(c**2) + c[n_basis // 2] ** 2) / (2 * h2) < module._LOWEST:
        np.testing.assert_allclose(module.sum_by_steps(*parts), slow, atol=1e-12 * np.max(size))


def test_narrow_functions_are_summed_one_by_one():
    kernel = kernel_on(RBFBasis(120))
    U = np.random.default_rng(0).standard_normal((2, 2))
    W = np.random.default_rng(1).standard_normal((2, 40_000))
    Z = kernel.features(U, W)
    assert kernel(U) == pytest.approx(Z @ Z.T / 40_000, abs=0.05)


@pytest.mark.parametrize("tile", [1, 7, 64])
def test_any_tiles_give_the_same_kernel(monkeypatch, tile):
    kernel, rng = kernel_on(RBFBasis(8)), np.random.default_rng(3)
    X, Y = rng.standard_normal((23, 2)), rng.standard_normal((11, 2))
    whole, between = kernel(X), kernel(X, Y)
    monkeypatch.setattr(module, "_TILE", tile)
    np.testing.assert_allclose(kernel(X), whole, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(kernel(X, Y), between, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(whole, kernel(X, X), rtol=1e-12, atol=1e-14)
    assert np.array_equal(whole, whole.T)


@given(seed=st.integers(0, 10**6), factor=st.floats(0.1, 10))
@settings(max_examples=25)
def test_a_kernel_is_positive_semi_definite_and_quadratic_in_its_activation(seed, factor):
    kernel = kernel_on(RBFBasis(7), seed)
    X = np.random.default_rng(seed).standard_normal((12, 2))
    K = kernel(X)
    assert np.linalg.eigvalsh(K)[0] > -1e-10 * np.trace(K)
    scaled = RBFKernel(kernel.basis, factor * kernel.coefficients)
    np.testing.assert_allclose(scaled(X), factor**2 * K, rtol=1e-10)
    assert np.abs(kernel.activation(np.linspace(-9, 9, 4001))).max() <= kernel.bound
    assert kernel.bound <= np.abs(kernel.activation(np.linspace(-9, 9, 40_001))).max() + 2e-3 * np.sum(
        np.abs(kernel.coefficients)
    )


def test_centre_and_scale_are_those_of_the_inputs():
    kernel = kernel_on(RBFBasis(8), center=np.array([1.0, -2.0, 5.0]), scale=np.array([0.5, 3.0, 0.0]))
    X = np.random.default_rng(0).standard_normal((6, 3))
    plain = kernel_on(RBFBasis(8))
    np.testing.assert_allclose(kernel(X), plain((X[:, :2] - [1.0, -2.0]) / [0.5, 3.0]), rtol=1e-12)


# The kernel of a fitted model


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(5)
    X = np.column_stack([rng.standard_normal((300, 2)) * [1.0, 7.0] + [3.0, 0.0], rng.random(300) < 0.2])
    return X, np.sin(X[:, 0]) + X[:, 1] / 7 + 0.1 * rng.standard_normal(300)


SHARED = {"directions": "random", "activation": "shared", "basis": "rbf", "random_state": 0}


@pytest.mark.parametrize(
    "arguments", [{}, {"bandwidth": 1.7}, {"density": "orthogonal"}, {"sampling": LeverageSampling(600)}]
)
def test_features_of_a_model_estimate_its_kernel(rows, arguments):
    X, y = rows
    model = RFLAFRegressor(500, **SHARED, **arguments).fit(X, y)
    kernel = theory.kernel_of(model)
    Z = model.transform(X[:40])
    K_hat = Z @ Z.T / model.model_.directions.n_draws
    assert np.linalg.norm(K_hat - kernel(X[:40])) < 0.15 * np.linalg.norm(kernel(X[:40]))
    assert kernel.activation([-1.0, 0.5]) == pytest.approx(model.activation_([-1.0, 0.5]))


def test_directions_of_a_model_in_the_units_of_its_kernel_are_standard_normal(rows):
    X, y = rows
    model = RFLAFRegressor(30, **SHARED).fit(X, y)
    kernel, directions = theory.kernel_of(model), model.model_.directions
    W = model.directions_ * kernel.scale[:, None]
    np.testing.assert_allclose(kernel.features(X[:9], W), model.transform(X[:9]), atol=1e-5)
    assert W.std() == pytest.approx(1, abs=0.2)
    np.testing.assert_allclose(directions.offset, -kernel.center @ directions.W, rtol=1e-12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"directions": "random", "basis": "rbf"}, "the activation must be shared"),
        ({**SHARED, "basis": "bspline"}, "the closed form needs an RBFBasis"),
        ({**SHARED, "density": "student_t"}, "directions must be Gaussian for a kernel in closed form"),
        ({"basis": "rbf"}, "directions must be random for a kernel in closed form; got 'refined'"),
    ],
)
@pytest.mark.slow
def test_models_without_a_closed_form_are_refused_with_the_reason(rows, arguments, message):
    X, y = (values[:40] for values in rows)
    model = RFLAFRegressor(5, **{"random_state": 0, **arguments}).fit(X, y)
    with pytest.raises(InvalidParameterError, match=message):
        theory.kernel_of(model)


def test_models_that_are_not_fitted_or_come_from_a_file_are_refused(rows, tmp_path):
    model = RFLAFRegressor(5, **SHARED)
    with pytest.raises(InvalidParameterError, match="the model must be fitted; got 'RFLAFRegressor'"):
        theory.kernel_of(model)
    save(model.fit(*rows), tmp_path / "model.rflaf")
    with pytest.raises(InvalidParameterError, match="must know the inputs that they were drawn for"):
        theory.kernel_of(load(tmp_path / "model.rflaf"))


# The model of infinite width


def finite_fit(kernel, X, y, X_new, alpha, width, rng):
    """Ridge regression with an intercept on features of ``width`` directions."""
    W = rng.standard_normal((X.shape[1], width))
    Z, Z_new = kernel.features(X, W), kernel.features(X_new, W)
    z, b = Z.mean(axis=0), y.mean()
    v = np.linalg.solve((Z - z).T @ (Z - z) / len(X) + alpha * width * np.eye(width), (Z - z).T @ (y - b) / len(X))
    return b + (Z_new - z) @ v


def test_wider_models_approach_kernel_ridge_regression_as_one_over_the_root_of_the_width():
    kernel, rng = kernel_on(RBFBasis(8), 1), np.random.default_rng(0)
    X, X_new = rng.standard_normal((120, 2)), rng.standard_normal((50, 2))
    y = np.sin(2 * X[:, 0]) + 1
    limit = theory.kernel_ridge_limit(kernel, X, y, alpha=0.01)
    expected, widths = limit.predict(X_new), np.array([50, 200, 800])
    errors = [
        np.sqrt(np.mean([(finite_fit(kernel, X, y, X_new, 0.01, s, rng) - expected) ** 2 for _ in range(12)]))
        for s in widths
    ]
    slope = np.polyfit(np.log(widths), np.log(errors), 1)[0]
    assert slope == pytest.approx(-0.5, abs=0.12)
    assert errors[-1] < 0.1 * expected.std()


@pytest.mark.parametrize("intercept", [True, False])
def test_the_limit_minimises_its_objective(intercept):
    kernel, rng = kernel_on(RBFBasis(8), 1), np.random.default_rng(0)
    X, y = rng.standard_normal((40, 2)), rng.standard_normal((40, 2)) + 3
    limit = theory.kernel_ridge_limit(kernel, X, y, 0.05, intercept)
    K = kernel(X)

    def objective(dual, b):
        return np.sum((y - b - K @ dual) ** 2) / 40 + 0.05 * np.sum(dual * (K @ dual))

    best = objective(limit.dual, limit.intercept)
    for _ in range(20):
        step, shift = 1e-3 * rng.standard_normal(limit.dual.shape), 1e-3 * rng.standard_normal(2) * intercept
        assert objective(limit.dual + step, limit.intercept + shift) >= best
    np.testing.assert_allclose(limit.predict(X), K @ limit.dual + limit.intercept)
    assert np.any(limit.intercept != 0) == intercept
    one = theory.kernel_ridge_limit(kernel, X, y[:, 0], 0.05, intercept)
    np.testing.assert_allclose(one.predict(X), limit.predict(X)[:, 0])


# The leverage density


@pytest.fixture(scope="module")
def leverage() -> LeverageDensity:
    rng = np.random.default_rng(0)
    return LeverageDensity(kernel_on(RBFBasis(8), 1), rng.standard_normal((60, 2)), 0.02)


def test_its_integral_is_the_effective_dimension():
    X = np.random.default_rng(0).standard_normal((30, 1))
    q = LeverageDensity(kernel_on(RBFBasis(8), 1), X, 0.02)
    w = np.linspace(-9, 9, 20_001)[None]
    assert np.trapezoid(q.value(w), w[0]) == pytest.approx(q.effective_dimension, rel=1e-9)
    assert np.trapezoid(np.exp(q.log_density(w)), w[0]) == pytest.approx(1, rel=1e-9)
    mu = theory.spectrum_of_gram(q.kernel(X))
    assert q.effective_dimension == pytest.approx(theory.effective_dimension(mu, 0.02), rel=1e-9)


def test_its_ratio_is_the_leverage_function_of_fresh_directions(leverage):
    W = np.random.default_rng(3).standard_normal((2, 700))
    K, Z = leverage.kernel(leverage.X), leverage.kernel.features(leverage.X, W)
    np.testing.assert_allclose(leverage.ratio(W), theory.leverage_function(K, Z, 0.02), rtol=1e-9)
    assert leverage.ratio(W).max() <= leverage.kernel.bound**2 / 0.02
    np.testing.assert_allclose(leverage.value(W), np.exp(Gaussian().log_density(W)) * leverage.ratio(W))
    assert leverage.ratio(np.zeros((2, 0))).shape == (0,)


def test_accepted_directions_follow_the_density(leverage):
    """Means of functions of w under q against those of draws from p weighted by q / p."""
    rng = np.random.default_rng(4)
    drawn, plain = leverage.sample(2, 4000, rng), rng.standard_normal((2, 40_000))
    weight = 1 / leverage.importance(plain) ** 2
    for function in (lambda w: np.cos(w[0]), lambda w: np.sum(w**2, axis=0), lambda w: w[1], lambda w: np.abs(w[0])):
        ours, theirs = function(drawn), weight * function(plain)
        error = np.hypot(ours.std() / np.sqrt(ours.size), theirs.std() / np.sqrt(theirs.size))
        assert abs(ours.mean() - theirs.mean()) < 4.5 * error
    inverse = leverage.importance(drawn) ** 2
    assert inverse.mean() == pytest.approx(1, abs=5 * inverse.std() / np.sqrt(inverse.size))


def test_a_wider_draw_begins_with_the_narrower_one(leverage):
    narrow, wide = (leverage.sample(2, n, np.random.default_rng(0)) for n in (50, 900))
    assert np.array_equal(wide[:, :50], narrow)


def test_directions_are_for_raw_inputs_with_their_importance(leverage):
    X = np.random.default_rng(0).standard_normal((20, 2)) * [2.0, 5.0] + 1
    kernel = RBFKernel(leverage.kernel.basis, leverage.kernel.coefficients, 1.0, np.array([2.0, 5.0]))
    q = LeverageDensity(kernel, X, 0.02)
    drawn = q.directions(1000, np.random.default_rng(1))
    assert isinstance(drawn, Directions)
    Z = kernel.activation(X @ drawn.W + drawn.offset) * drawn.importance
    K = kernel(X)
    assert np.linalg.norm(Z @ Z.T / drawn.n_draws - K) < 0.1 * np.linalg.norm(K)
    np.testing.assert_allclose(drawn.importance, q.importance(drawn.W * np.array([[2.0], [5.0]])))


def test_fewer_directions_from_the_density_than_from_p_bring_the_gram_matrix_near():
    """Rows far from most directions make the scores spread; Lemma E.4 then needs fewer draws from q."""
    rng = np.random.default_rng(0)
    kernel = RBFKernel(RBFBasis(12, (2.0, 6.0)), np.ones(12))
    X = rng.standard_normal((80, 2))
    q = LeverageDensity(kernel, X, 5e-3)
    K = kernel(X)

    def deviation(W, importance):
        Z = kernel.features(X, W) * importance
        return theory.gram_deviation(K, Z @ Z.T / W.shape[1], 5e-3)

    ours, plain = [], []
    for _ in range(6):
        W = q.sample(2, 100, rng)
        ours.append(deviation(W, q.importance(W)))
        plain.append(deviation(rng.standard_normal((2, 100)), 1.0))
    assert np.mean(ours) < 0.8 * np.mean(plain)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [RFLAFRegressor, RFLAFClassifier])
def test_estimators_take_the_density_with_its_weights(rows, kind):
    X, y = rows
    y = y if kind is RFLAFRegressor else y > 0
    pilot = kind(60, **SHARED).fit(X, y)
    q = LeverageDensity(theory.kernel_of(pilot), X, 0.02)
    model = kind(40, **SHARED, density=q, bandwidth=pilot.bandwidth_).fit(X, y)
    W = model.directions_ * q.kernel.scale[:, None]
    np.testing.assert_allclose(model.importance_, q.importance(W), rtol=1e-6)
    assert model.score(X, y) > 0.8
    assert theory.kernel_of(model).scale == pytest.approx(q.kernel.scale)
    again = kind(40, **SHARED, density=q, bandwidth=pilot.bandwidth_).fit(X, y)
    assert np.array_equal(again.predict(X), model.predict(X))


def test_it_describes_itself_by_what_determines_it(leverage):
    assert repr(leverage).startswith("LeverageDensity(60 rows, lam=0.02, effective_dimension=")


# Refusals


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda k: RBFKernel(k.basis, np.ones(3)), r"coefficients must have the shape \(n_basis,\) = \(8,\); got \(3"),
        (lambda k: RBFKernel(k.basis, np.full(8, np.nan)), "coefficients must be finite"),
        (lambda k: k(np.ones(3)), r"rows must have two dimensions; got \(3,\)"),
        (lambda k: k([[np.inf]]), "rows must be finite"),
        (
            lambda k: RBFKernel(k.basis, k.coefficients, scale=np.ones(2))(np.ones((1, 3))),
            r"rows must have the 2 columns of the kernel's scale; got \(1, 3\)",
        ),
        (lambda k: theory.kernel_ridge_limit(k, np.ones((3, 1)), np.ones(2), 0.1), r"y must have 3 rows; got \(2,\)"),
        (lambda k: theory.kernel_ridge_limit(k, np.ones((3, 1)), np.ones(3), 0.0), "lambda must be a number above"),
        (lambda k: LeverageDensity(k, np.ones((3, 1)), -1.0), "lambda must be a number above zero"),
        (
            lambda k: LeverageDensity(k, np.eye(3), 1e-3).sample(2, 5, np.random.default_rng(0)),
            "directions must have the 3 entries of the density's rows; got 2",
        ),
        (
            lambda k: LeverageDensity(k, np.eye(3), 1e-9).sample(3, 5, np.random.default_rng(0)),
            "a share of at least 1e-06 of the directions must be accepted",
        ),
    ],
)
def test_what_cannot_be_computed_is_refused(call, message):
    with pytest.raises(InvalidParameterError, match=message):
        call(kernel_on(RBFBasis(8), 1))


@pytest.mark.parametrize(
    "call",
    [
        lambda k, X, lam: LeverageDensity(k, X, lam),
        lambda k, X, lam: theory.kernel_ridge_limit(k, X, X[:, 0], lam),
    ],
)
def test_assumption_2_2_is_warned_about_where_the_call_is(call):
    kernel, X = kernel_on(RBFBasis(8), 1), np.random.default_rng(0).standard_normal((20, 2))
    largest = float(theory.spectrum_of_gram(kernel(X))[0])
    with pytest.warns(AssumptionWarning, match=r"Assumption 2\.2") as caught:
        call(kernel, X, 1.1 * largest)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        call(kernel, X, 0.9 * largest)
