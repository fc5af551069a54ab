"""Line 6 of Algorithm 1 at its minimum, and its other lines as printed, through public attributes alone."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from data import weighted_sine_rows
from exact_reference import Reference, tangential_share
from scipy.special import softmax
from settings import PAPER

from rflaf import LeverageSampling, RFLAFClassifier, RFLAFRegressor, SharedActivation
from rflaf.errors import AssumptionWarning, StopReason
from rflaf.functions.bases import BSplineBasis, RBFBasis
from rflaf.functions.losses import Huber
from rflaf.rows.blocks import array_source
from rflaf.rows.executors import ThreadExecutor
from rflaf.theory import leverage_advice
from rflaf.training.solvers import exact_search
from rflaf.training.solvers.moment_problem import MomentProblem
from rflaf.training.solvers.whole_problem import WholeProblem

EXACT = {"directions": "random", "activation": SharedActivation(search="exact"), "random_state": 0, "n_jobs": 1}
LEVERAGE = LeverageSampling(pool_size=40, alpha=1e-3)


@pytest.fixture
def by_passes(monkeypatch):
    """Descend by passes over the rows, as where functions are too many for sums of their products."""
    monkeypatch.setattr(exact_search, "_MOST_FUNCTIONS", 0)


def random_problem(seed: int):
    """A fitted exact model on a small random problem, and the problem from its formula."""
    rng = np.random.default_rng(seed)
    n_rows, n_features, width = int(rng.integers(60, 300)), int(rng.integers(1, 6)), int(rng.integers(3, 15))
    basis = (BSplineBasis if seed % 2 else RBFBasis)(int(rng.integers(5, 13)))
    X = rng.standard_normal((n_rows, n_features))
    y = (
        np.sin(2 * X @ rng.standard_normal(n_features))
        + X[:, 0] ** 2 * rng.normal()
        + 0.3 * rng.standard_normal(n_rows)
    )
    settings = {
        "sampling": LEVERAGE if seed % 4 == 0 else "plain",
        "alpha": "auto" if seed % 3 == 0 else 10.0 ** rng.uniform(-6, -2),
        "fit_intercept": seed % 5 > 0,
    }
    model = RFLAFRegressor(width, basis=basis, **{**EXACT, "random_state": seed, **settings}).fit(X, y)
    return model, Reference.of(model, X, y)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(30))
def test_no_start_of_sixty_ends_lower(seed, one_blas_thread):
    model, reference = random_problem(seed)
    a = model.activation_.coefficients[0]
    lowest = reference.lowest(60, np.random.default_rng(seed))
    assert reference.value(a) <= lowest * (1 + 1e-6)
    assert tangential_share(reference.gradient(a), a) < 1e-6
    assert model.stop_reason_ is StopReason.GRADIENT


@pytest.mark.parametrize("seed", range(6))
def test_the_gradient_vanishes_at_the_stated_penalty(seed, one_blas_thread):
    model, reference = random_problem(seed)
    a = model.activation_.coefficients[0]
    assert tangential_share(reference.gradient(a), a) < 1e-6
    v, b = reference.solve(a)
    np.testing.assert_allclose(model.output_weights_, v[:, 0], rtol=1e-6, atol=1e-8 * np.abs(v).max())
    np.testing.assert_allclose(model.intercept_, b[0], rtol=1e-6, atol=1e-8)


def standardised(y, weight=None):
    """Several outputs count by their own deviations."""
    mean = np.average(y, axis=0, weights=weight)
    return (y - mean) / np.sqrt(np.average((y - mean) ** 2, axis=0, weights=weight))


@pytest.mark.parametrize("search", ["sums", "passes"])
@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("weighted", [True, False], ids=["weighted", "unweighted"])
@pytest.mark.parametrize("basis", [BSplineBasis(8), RBFBasis(8)], ids=["bspline", "rbf"])
def test_weights_and_outputs_count_as_in_the_formula(search, n_outputs, weighted, basis, request, one_blas_thread):
    if search == "passes":
        request.getfixturevalue("by_passes")
    X, y, weight = weighted_sine_rows(400, n_outputs)
    y, weight = standardised(y, weight if weighted else None), weight if weighted else None
    model = RFLAFRegressor(9, basis=basis, alpha=1e-4, **EXACT).fit(X, y, sample_weight=weight)
    reference, a = Reference.of(model, X, y, weight), model.activation_.coefficients[0]
    assert tangential_share(reference.gradient(a), a) < 1e-6
    np.testing.assert_allclose(model.output_weights_, reference.solve(a)[0].T, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("fit_intercept", [True, False], ids=["intercept", "origin"])
def test_passes_over_many_blocks_end_at_a_minimum_too(fit_intercept, tmp_path, monkeypatch, one_blas_thread):
    X, y = weighted_sine_rows(900, 1)[:2]
    settings = {**EXACT, "basis": BSplineBasis(9), "alpha": 1e-3, "fit_intercept": fit_intercept}
    by_sums = RFLAFRegressor(7, **settings).fit(X, y[:, 0])
    monkeypatch.setattr(exact_search, "_MOST_FUNCTIONS", 0)
    frame = pd.DataFrame(X, columns=list("abc")).assign(target=y[:, 0])
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=100)
    streamed = RFLAFRegressor(7, **settings).fit(str(tmp_path / "rows.parquet"), "target")
    reference, a = Reference.of(streamed, X, y[:, 0]), streamed.activation_.coefficients[0]
    assert tangential_share(reference.gradient(a), a) < 1e-6
    assert reference.value(a) >= reference.value(by_sums.activation_.coefficients[0]) * (1 - 1e-9)


@pytest.mark.parametrize("alpha", [1e-4, "auto"])
def test_rows_in_single_precision_end_at_a_minimum_too(alpha, by_passes, monkeypatch, one_blas_thread):
    monkeypatch.setattr(exact_search, "_SOME_ROWS", 200)  # of 900, for a start near the minimum
    X, y = weighted_sine_rows(900, 1)[:2]
    X = X.astype(np.float32)
    model = RFLAFRegressor(12, **{**EXACT, "basis": RBFBasis(9), "alpha": alpha}).fit(X, y[:, 0])
    reference, a = Reference.of(model, X.astype(float), y[:, 0]), model.activation_.coefficients[0]
    assert tangential_share(reference.gradient(a), a) < 1e-6
    assert model.stop_reason_ is StopReason.GRADIENT


def test_the_cut_into_blocks_changes_only_rounding(by_passes, one_blas_thread):
    X, y, weight = weighted_sine_rows(500, 2)
    basis, model = RBFBasis(7), RFLAFRegressor(6, basis=RBFBasis(7), alpha=1e-3, **EXACT).fit(X, y)
    answers = []
    for rows in (500, 17):
        source = array_source(X, y, weight).with_rows(rows)
        problem = WholeProblem(source, model.model_.directions, basis.pieces(), 1e-3, True, ThreadExecutor(1))
        answers.append(problem.derivatives(problem.at(np.sin(np.arange(7.0)))))
    for one, many in zip(*answers, strict=True):
        np.testing.assert_allclose(many, one, rtol=1e-9, atol=1e-12)


def test_both_forms_have_the_derivatives_of_the_formula(one_blas_thread):
    X, y, weight = weighted_sine_rows(200, 2)
    model = RFLAFRegressor(6, basis=BSplineBasis(7), sampling=LEVERAGE, alpha=1e-3, **EXACT).fit(X, y)
    source, executor, pieces = array_source(X, y, weight).with_rows(50), ThreadExecutor(1), BSplineBasis(7).pieces()
    rows = source, model.model_.directions, pieces
    reference, a = Reference.of(model, X, y, weight), np.cos(np.arange(7.0))
    for problem in (
        WholeProblem(*rows, reference.ridge, True, executor),
        MomentProblem.of_rows(*rows, True, executor).with_ridge(reference.ridge),
    ):
        place = problem.at(a)
        slope, hessian = problem.derivatives(place)
        assert place.value == pytest.approx(reference.value(a), rel=1e-10)
        np.testing.assert_allclose(slope, reference.gradient(a), rtol=1e-8, atol=1e-12)
        step = 1e-5 * np.eye(7)
        differences = [(reference.gradient(a + e) - reference.gradient(a - e)) / 2e-5 for e in step]
        np.testing.assert_allclose(hessian, differences, rtol=1e-5, atol=1e-7)


def tangent_of_risk(model, X, slopes, weight=None):
    """The tangential share of 1/n sum_i w_i H(v)_i' l'_i at a fitted model, ``slopes`` l' (n_rows, n_outputs)."""
    weight = np.full(len(X), 1 / len(X)) if weight is None else weight / weight.sum()
    directions = model.model_.directions
    B = model.activation_.basis.values(X @ model.directions_ + directions.offset) * model.importance_[:, None]
    gradient = np.einsum("nmk,no,mo->k", B, weight[:, None] * slopes, model.model_.v)
    return tangential_share(gradient, model.activation_.coefficients[0])


@pytest.mark.parametrize("basis", [BSplineBasis(7), RBFBasis(7)], ids=["bspline", "rbf"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_gradient_vanishes_under_log_loss(n_classes, basis, one_blas_thread):
    X, y = weighted_sine_rows(500, 1)[:2]
    labels = np.digitize(y[:, 0], [0.5] if n_classes == 2 else [0.0, 1.0])
    model = RFLAFClassifier(8, basis=basis, alpha=1e-3, **EXACT).fit(X, labels)
    f = model.decision_function(X)
    slopes = 1 / (1 + np.exp(-f[:, None])) - labels[:, None] if n_classes == 2 else softmax(f, 1) - np.eye(3)[labels]
    assert tangent_of_risk(model, X, slopes) < 1e-6


def test_the_gradient_vanishes_under_the_huber_loss(one_blas_thread):
    X, y, weight = weighted_sine_rows(500, 1)
    y = y[:, 0] + np.random.default_rng(1).standard_t(2, 500)
    model = RFLAFRegressor(8, loss=Huber(0.7), basis=BSplineBasis(7), alpha=1e-3, **EXACT)
    model.fit(X, y, sample_weight=weight)
    residual = (model.predict(X) - y)[:, None]
    assert tangent_of_risk(model, X, 2 * np.clip(residual, -0.7, 0.7), weight) < 1e-6


def test_a_given_radius_is_kept():
    X, y = weighted_sine_rows(200, 1)[:2]
    for radius in (0.5, 7.0):
        shared = SharedActivation("exact", radius=radius)
        model = RFLAFRegressor(5, directions="random", activation=shared, alpha=1e-3, random_state=0).fit(X, y[:, 0])
        assert np.linalg.norm(model.activation_.coefficients[0]) == pytest.approx(radius, rel=1e-12)


# Lines 1 to 5 from a fitted model


def features_of_pool(model, X):
    """Z(a~) of the pool, (n_rows, s)."""
    pool, basis = model.pool_, model.activation_.basis
    return basis.values(X @ pool.W + pool.offset) @ pool.a


def fitted_by_leverage(n_draws=25, fit_intercept=True, **settings):
    X, y = weighted_sine_rows(300, 1)[:2]
    sampling = LeverageSampling(**{"pool_size": 30, **settings})
    arguments = {**EXACT, "sampling": sampling, "basis": RBFBasis(9), "fit_intercept": fit_intercept}
    return RFLAFRegressor(n_draws, alpha=1e-4, **arguments).fit(X, y[:, 0]), X, y[:, 0]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::rflaf.errors.AssumptionWarning")  # 1 / sqrt(300) is large beside problem (8)
@pytest.mark.parametrize("alpha", [1e-3, "auto", "fit"])
@pytest.mark.parametrize("balance", ["proof", "printed"])
def test_lines_three_and_four_can_be_computed_again(alpha, balance, one_blas_thread):
    model, X, _ = fitted_by_leverage(alpha=alpha, balance=balance)
    Z, pool, (n, s) = features_of_pool(model, X), model.pool_, (len(X), 30)
    assert pool.lam == {"auto": n**-0.5, "fit": 1e-4}.get(alpha, alpha)
    G = Z.T @ Z
    scores = np.diag(G @ np.linalg.inv(G / s + n * pool.lam * np.eye(s)))
    np.testing.assert_allclose(pool.scores, scores, rtol=1e-10)
    np.testing.assert_allclose(pool.probabilities, scores / scores.sum(), rtol=1e-10)
    K = Z @ Z.T / s
    dimension = np.trace(K @ np.linalg.inv(K + n * pool.lam * np.eye(n)))
    for stated in (pool.effective_dimension, model.effective_dimension_, scores.sum() / s):
        np.testing.assert_allclose(stated, dimension, rtol=1e-10)
    np.testing.assert_allclose(pool.largest_eigenvalue, np.linalg.eigvalsh(K)[-1] / n, rtol=1e-3)


@pytest.mark.slow
def test_line_five_weighs_draws_by_the_square_root_of_p_over_q(one_blas_thread):
    model, _, _ = fitted_by_leverage()
    pool, s = model.pool_, 30
    assert pool.counts.sum() == 25 == model.model_.directions.n_draws
    assert pool.counts.max() > 1  # duplicates are merged: one component of importance sqrt(k p / q)
    np.testing.assert_allclose(model.directions_, pool.W[:, pool.drawn], rtol=1e-12)
    q = pool.probabilities[pool.drawn]
    np.testing.assert_allclose(model.importance_, np.sqrt(pool.counts / (s * q)), rtol=1e-10)


@pytest.mark.slow
def test_drawing_without_replacement_takes_every_direction_once(one_blas_thread):
    model, _, _ = fitted_by_leverage(n_draws=12, replace=False)
    pool = model.pool_
    assert np.unique(pool.drawn).size == 12
    assert np.array_equal(pool.counts, np.ones(12))
    c = 12 / pool.scores.sum()
    inclusion = np.minimum(1, c * pool.scores)
    assert inclusion.max() < 1  # so that c needs no second look
    np.testing.assert_allclose(model.importance_, np.sqrt(12 / (30 * inclusion[pool.drawn])), rtol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("fit_intercept", [True, False], ids=["intercept", "origin"])
def test_line_two_solves_problem_six(fit_intercept, one_blas_thread):
    model, X, y = fitted_by_leverage(fit_intercept=fit_intercept)
    Z, pool = features_of_pool(model, X), model.pool_
    assert pool.ridge == pytest.approx(1e-4 * 30, rel=1e-12)  # alpha times the pool, each direction one draw
    centre, level = (Z.mean(axis=0), y.mean()) if fit_intercept else (0.0, 0.0)
    Zc = Z - centre
    v = np.linalg.solve(Zc.T @ Zc / len(X) + pool.ridge * np.eye(30), Zc.T @ (y - level) / len(X))
    np.testing.assert_allclose(pool.v[:, 0], v, rtol=1e-10, atol=1e-10 * np.abs(v).max())
    np.testing.assert_allclose(pool.intercept[0], level - np.sum(centre * v), rtol=1e-9, atol=1e-12)
    ones, functions = np.ones(len(X)), model.activation_.basis.values(X @ pool.W + pool.offset)
    radius = float(np.linalg.norm(pool.a))
    reference = Reference(functions, y[:, None], ones / len(X), pool.ridge, radius, fit_intercept)
    assert tangential_share(reference.gradient(pool.a), pool.a) < 1e-6


@pytest.mark.slow
def test_line_two_as_printed_is_balanced_least_squares(one_blas_thread):
    """Problem (8): its penalty vanishes, the rest is least squares in (a, v), where the whole gradient is zero."""
    X, y = weighted_sine_rows(300, 1)[:2]
    y = y[:, 0]
    sampling = LeverageSampling(pool_size=6, alpha=1e-3, balance="printed")
    model = RFLAFRegressor(5, sampling=sampling, basis=BSplineBasis(6), alpha=1e-4, fit_intercept=False, **EXACT)
    pool = model.fit(X, y).pool_
    np.testing.assert_allclose(np.linalg.norm(pool.a), np.linalg.norm(pool.v), rtol=1e-10)
    B = model.activation_.basis.values(X @ pool.W + pool.offset)
    residual = B @ pool.a @ pool.v[:, 0] - y
    by_v = np.einsum("nmk,k,n->m", B, pool.a, residual)
    by_a = np.einsum("nmk,m,n->k", B, pool.v[:, 0], residual)
    size = np.linalg.norm(y) * np.linalg.norm(B @ pool.a)
    assert np.linalg.norm(by_v) < 1e-8 * size
    assert np.linalg.norm(by_a) < 1e-6 * size
    assert pool.ridge == 0


def test_a_lambda_above_the_spectrum_is_warned_of():
    X, y = weighted_sine_rows(200, 1)[:2]
    model = RFLAFRegressor(10, sampling=LeverageSampling(20, alpha=50.0), random_state=0, **PAPER)
    with pytest.warns(AssumptionWarning, match="largest eigenvalue of the kernel.*Assumption 2.2"):
        model.fit(X, y[:, 0])


def test_a_fit_tells_whether_its_scores_are_worth_sampling_by(caplog):
    X, y = weighted_sine_rows(200, 1)[:2]
    model = RFLAFRegressor(10, sampling=LeverageSampling(20, alpha=1e-3), random_state=0, **PAPER)
    with caplog.at_level("INFO", logger="rflaf"):
        model.fit(X, y[:, 0])
    assert leverage_advice(model.pool_.spread) in caplog.messages
