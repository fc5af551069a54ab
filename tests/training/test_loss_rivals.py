"""Simpler models under losses without a closed form: the fits by folds, and the model of the one that is chosen."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from rflaf import RFLAFClassifier, RFLAFRegressor
from rflaf.functions.losses import Huber, Logistic, Poisson, Softmax, Squared
from rflaf.training.solvers.convex_loss import FoldedProblem, by_folds, leave_folds_out


def some_rows(n_rows: int, width: int, n_outputs: int, seed: int):
    """Features of unlike size and mean, with labels that depend on them."""
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((n_rows, width)) * rng.uniform(0.3, 2, width) + rng.standard_normal(width)
    f = Z @ rng.standard_normal((width, n_outputs)) + rng.gumbel(size=(n_rows, n_outputs))
    return Z, (np.eye(n_outputs)[f.argmax(axis=1)] if n_outputs > 1 else (f > 0).astype(float))


def folded(Z, y, loss, n_folds=3, intercept=True, weight=None) -> FoldedProblem:
    rows = np.arange(len(Z))
    splits = [(rows[rows % n_folds != fold], rows[rows % n_folds == fold]) for fold in range(n_folds)]
    weight = np.ones(len(Z)) if weight is None else weight
    return FoldedProblem(Z, y, weight, splits, loss, loss.constant(y, weight), intercept)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_rows_held_out_are_answered_as_by_scikit_learn_at_the_same_ridge(n_classes, monkeypatch):
    monkeypatch.setattr(by_folds, "_FLAT_TOLERANCE", 1e-6)
    monkeypatch.setattr(by_folds, "_FLAT_STEPS", 500)
    Z, y = some_rows(300, 6, n_classes if n_classes > 2 else 1, seed=2)
    labels = y.argmax(axis=1) if n_classes > 2 else y[:, 0].astype(int)
    problem = folded(Z, y, Softmax() if n_classes > 2 else Logistic())
    found = leave_folds_out(problem)
    expected = []
    for kept, held_out in problem.splits:
        model = LogisticRegression(C=1 / (2 * kept.size * found.ridge), tol=1e-10, max_iter=5000)
        expected.append(model.fit(Z[kept], labels[kept]).predict_log_proba(Z[held_out]))
    if n_classes == 2:
        expected = [each[:, 1:] - each[:, :1] for each in expected]
        np.testing.assert_allclose(found.outputs, np.concatenate(expected), atol=2e-3)
    else:
        outputs = found.outputs - np.log(np.exp(found.outputs).sum(axis=1, keepdims=True))
        np.testing.assert_allclose(outputs, np.concatenate(expected), atol=2e-3)


def test_two_folds_choose_the_ridge_of_log_odds_and_all_are_answered(monkeypatch):
    problem, solved = folded(*some_rows(300, 6, 1, seed=2), Logistic(), n_folds=5), []
    minimise = by_folds._Path._minimise
    monkeypatch.setattr(by_folds._Path, "_minimise", lambda *args: solved.append(1) or minimise(*args))
    found, count = leave_folds_out(problem), len(solved)
    by_two = leave_folds_out(replace(problem, splits=problem.splits[:2]))
    assert (found.outputs.shape, found.ridge) == ((300, 1), by_two.ridge)
    np.testing.assert_array_equal(found.outputs[: len(by_two.outputs)], by_two.outputs)
    assert len(solved) - count == count - 3
    solved.clear()
    monkeypatch.setattr(by_folds, "_FOLDS_OF_CLASSES", 5)
    leave_folds_out(problem)
    assert len(solved) > 1.6 * count


@pytest.mark.parametrize("seed", [1, 2, 4])
def test_classes_nearly_told_apart_by_nearly_equal_columns_are_solved_to_one_percent_of_the_loss(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    columns = rng.standard_normal((300, 14)) * 10.0 ** np.linspace(0, -2, 14)
    columns = columns @ np.linalg.qr(rng.standard_normal((14, 14)))[0]
    nearness = columns @ np.linalg.pinv(np.cov(columns.T)) @ columns[:5].T
    label = np.argmax(nearness + 0.3 * rng.gumbel(size=(300, 5)), axis=1)
    problem = folded(20 * columns / columns.std(axis=0), np.eye(5)[label], Softmax(), n_folds=5)
    rows = np.concatenate([held_out for _, held_out in problem.splits])

    def loss():
        return problem.loss.value(leave_folds_out(problem).outputs, problem.y[rows]).mean()

    found = loss()
    monkeypatch.setattr(by_folds, "_FLAT_TOLERANCE", 1e-5)
    monkeypatch.setattr(by_folds, "_FLAT_STEPS", 3000)
    assert abs(found / loss() - 1) < 0.01


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), intercept=st.booleans())
def test_squared_loss_without_a_fold_is_ridge_regression(seed, intercept):
    with pytest.MonkeyPatch.context() as exact:
        exact.setattr(by_folds, "_TOLERANCE", 1e-6)
        check_against_ridge_regression(seed, intercept)


def check_against_ridge_regression(seed, intercept):
    Z, _ = some_rows(60, 5, 1, seed)
    y = Z @ np.arange(1.0, 6)[:, None] + np.random.default_rng(seed).standard_normal((60, 1))
    problem = folded(Z, y, Squared(), intercept=intercept)
    found, in_order = leave_folds_out(problem), np.concatenate([rows for _, rows in problem.splits])
    for kept, held_out in problem.splits:
        mean = Z[kept].mean(axis=0) * intercept
        shift = y[kept].mean(axis=0) * intercept
        G = (Z[kept] - mean).T @ (Z[kept] - mean) / kept.size + found.ridge * np.eye(5)
        v = np.linalg.solve(G, (Z[kept] - mean).T @ (y[kept] - shift) / kept.size)
        answers = found.outputs[np.isin(in_order, held_out)]
        np.testing.assert_allclose(answers, shift + (Z[held_out] - mean) @ v, atol=1e-3 * y.std())


def test_a_sketch_of_many_features_keeps_their_leading_axes():
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((400, 30)) @ rng.standard_normal((30, 700)) + 1e-3 * rng.standard_normal((400, 700))
    axes, turned = by_folds.principal_axes(Z, np.ones(400), True)
    exact = np.linalg.svd(Z - Z.mean(axis=0), compute_uv=False)[:30] ** 2 / 400
    np.testing.assert_allclose(np.sort(axes.spread)[-30:][::-1], exact, rtol=1e-3)
    np.testing.assert_allclose(turned @ axes.Q.T, Z - Z.mean(axis=0), atol=2e-2)


@pytest.mark.slow
def test_a_function_per_class_and_column_is_fitted_as_it_was_judged():
    """The classes follow different functions of one column: a single shape for all of them would not do."""
    rng = np.random.default_rng(3)
    x = rng.uniform(-2, 2, (600, 2))
    f = np.stack([2 * np.cos(3 * x[:, 0]), 2 * np.sin(3 * x[:, 0]), x[:, 1]], axis=1)
    y = (f + rng.gumbel(size=f.shape)).argmax(axis=1)
    model = RFLAFClassifier(random_state=0, n_jobs=1).fit(x, y)
    truth = f - np.log(np.exp(f).sum(axis=1, keepdims=True))
    loss_of_truth = -truth[np.arange(600), y].mean()
    assert model.cv_error_ < loss_of_truth + 0.06
    assert -np.log(model.predict_proba(x)[np.arange(600), y]).mean() < loss_of_truth + 0.03


@pytest.mark.slow
@pytest.mark.parametrize(
    ("loss", "draw"),
    [("poisson", lambda rng: rng.poisson(3.0, 400)), (Huber(1.0), lambda rng: rng.standard_normal(400))],
    ids=["poisson", "huber"],
)
def test_pure_noise_gets_nearly_a_constant(loss, draw):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((400, 5)), draw(rng)
    model = RFLAFRegressor(random_state=0, n_jobs=1, loss=loss).fit(X, y)
    assert np.std(model.predict(X)) < 0.2 * np.std(y)


@pytest.mark.slow
def test_labels_without_cause_get_their_shares():
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((500, 4)), rng.choice(3, 500, p=[0.7, 0.2, 0.1])
    p = RFLAFClassifier(random_state=0, n_jobs=1).fit(X, y).predict_proba(X)
    np.testing.assert_allclose(p.mean(axis=0), np.bincount(y) / 500, atol=0.01)
    assert p.std(axis=0).max() < 0.08


@pytest.mark.slow
def test_a_linear_truth_is_told_from_curves():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((400, 3))
    y = (X @ [2.0, -1.0, 0.0] + rng.logistic(size=400) > 0).astype(int)
    model = RFLAFClassifier(random_state=0, n_jobs=1).fit(X, y)
    truth = X @ [2.0, -1.0, 0.0]
    assert np.corrcoef(model.decision_function(X), truth)[0, 1] > 0.98


def test_the_losses_give_value_and_slope_in_one_go():
    rng = np.random.default_rng(0)
    f = 3 * rng.standard_normal((50, 4))
    for loss, y in [(Softmax(), rng.dirichlet(np.ones(4), 50)), (Poisson(), rng.poisson(2.0, (50, 4)))]:
        value, slope = loss.value_and_slope(f, y)
        np.testing.assert_allclose(value, loss.value(f, y))
        np.testing.assert_allclose(slope, loss.slope(f, y), atol=1e-14)
