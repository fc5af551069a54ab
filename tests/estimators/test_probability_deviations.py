"""The standard deviations of probabilities are near the spread of fits to rows drawn anew."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit, softmax
from sklearn.model_selection import PredefinedSplit

import rflaf
from rflaf import RFLAFClassifier
from rflaf.errors import InvalidParameterError
from rflaf.functions.losses import Logistic, Softmax
from rflaf.model.doubt import Doubt, deviations
from rflaf.training.doubt import _of_differences, centred, refits_of
from rflaf.training.solvers.refined.search import Hunt

NEW = np.random.default_rng(1).standard_normal((300, 3))


def draw(n_rows: int, n_classes: int, seed: int):
    """Rows drawn anew, with labels whose probabilities are the same functions of three columns every time."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, 3))
    f = np.stack([1.5 * np.sin(2 * X[:, 0]), X[:, 1] * X[:, 2], -0.5 * X[:, 1]], axis=1)
    p = softmax(f, axis=1) if n_classes == 3 else expit(f[:, :1] + f[:, 1:2]) * [[1, 1]] * [[-1, 1]] + [[1, 0]]
    return X, (p.cumsum(axis=1) < rng.random((n_rows, 1))).sum(axis=1)


@pytest.fixture(scope="module")
def fitted():
    return RFLAFClassifier(16, random_state=0).fit(*draw(400, 2, 0))


@pytest.mark.parametrize(("n_rows", "n_classes"), [(500, 2), (700, 3)])
def test_the_deviation_is_near_the_spread_of_fits_to_other_rows(n_rows, n_classes):
    answers = [
        RFLAFClassifier(16, random_state=seed).fit(*draw(n_rows, n_classes, seed)).predict_proba(NEW, return_std=True)
        for seed in range(6)
    ]
    p, stated = map(np.array, zip(*answers, strict=True))
    assert stated.shape == p.shape == (6, len(NEW), n_classes)
    spread = p.std(axis=0, ddof=1)
    assert 0.6 < np.sqrt(np.mean(stated**2) / np.mean(spread**2)) < 1.7
    assert np.mean((spread < 2 * stated.mean(axis=0)) & (spread > stated.mean(axis=0) / 2)) > 0.6
    about_mean = np.abs(p - p.mean(axis=0)) * np.sqrt(6 / 5)
    assert 0.85 < np.mean(about_mean < 2 * stated) < 1
    assert np.corrcoef(stated.mean(axis=0).ravel(), spread.ravel())[0, 1] > 0.35


def test_more_rows_leave_less_doubt():
    few, many = (
        RFLAFClassifier(16, random_state=0).fit(*draw(n_rows, 2, 0)).predict_proba(NEW, return_std=True)[1]
        for n_rows in (300, 2700)
    )
    assert 1.5 < np.sqrt(np.mean(few**2) / np.mean(many**2)) < 6  # three, if each row told as much


def test_the_likelier_of_two_classes_is_as_uncertain_as_the_other(fitted):
    p, deviation = fitted.predict_proba(NEW, return_std=True)
    assert_array_equal(p, fitted.predict_proba(NEW))
    assert_array_equal(deviation[:, 0], deviation[:, 1])
    assert deviation.min() > 0
    assert deviation.max() < 0.5
    single = fitted.predict_proba(NEW.astype(np.float32), return_std=True)[1]
    assert single.dtype == np.float32
    assert_allclose(single, deviation, atol=1e-4)


def test_frames_and_files_have_deviations_too(tmp_path):
    X, y = draw(400, 3, 0)
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(kind=np.array(["low", "mid", "high"])[y])
    frame.to_csv(tmp_path / "rows.csv", index=False)
    model = RFLAFClassifier(16, random_state=0).fit(frame, "kind")
    p, deviation = model.predict_proba(frame, return_std=True)
    out = np.empty_like(p), np.empty_like(deviation)
    given = model.predict_proba(tmp_path / "rows.csv", return_std=True, out=out)
    assert given[1] is out[1]
    assert_allclose(out[1], deviation, rtol=1e-6)
    from_file = RFLAFClassifier(16, random_state=0).fit(tmp_path / "rows.csv", "kind")
    assert 0.5 < from_file.predict_proba(frame, return_std=True)[1].mean() / deviation.mean() < 2


def test_several_labels_have_a_deviation_each():
    X, y = draw(400, 2, 0)
    Y = np.column_stack([y, 1 - y, X[:, 0] > 0])
    p, deviation = RFLAFClassifier(16, random_state=0).fit(X, Y).predict_proba(NEW, return_std=True)
    assert deviation.shape == p.shape == (len(NEW), 3)
    assert deviation[:, 2].mean() < deviation[:, 0].mean()  # a label without noise


def test_simpler_models_and_rows_held_out_once_are_judged_by_their_differences():
    rng = np.random.default_rng(0)
    spread = []
    for _ in range(6):
        X = rng.standard_normal((200, 2))
        model = RFLAFClassifier(16, random_state=0).fit(X, rng.random(200) < expit(X[:, 0]))
        spread.append(model.predict_proba(NEW[:, :2], return_std=True))
    p, stated = map(np.array, zip(*spread, strict=True))
    assert 0.5 < np.sqrt(np.mean(stated**2) / np.mean(p.std(axis=0, ddof=1) ** 2)) < 2
    X, y = draw(400, 2, 0)
    once_held_out = PredefinedSplit(np.where(np.arange(400) < 100, 0, -1))
    model = RFLAFClassifier(16, random_state=0).fit(X, y, cv=once_held_out)
    _, once = model.predict_proba(NEW, return_std=True)
    assert 0.01 < once.mean() < 0.3


def test_saved_models_answer_the_same_and_small_ones_refuse(fitted, tmp_path):
    rflaf.save(fitted, tmp_path / "whole.rflaf")
    again = rflaf.load(tmp_path / "whole.rflaf")
    assert_array_equal(again.predict_proba(NEW, return_std=True)[1], fitted.predict_proba(NEW, return_std=True)[1])
    rflaf.save(fitted, tmp_path / "small.rflaf", dtype="float32")
    small = rflaf.load(tmp_path / "small.rflaf")
    with pytest.raises(InvalidParameterError, match="return_std=True needs"):
        small.predict_proba(NEW, return_std=True)


def test_models_without_other_fits_refuse(fitted):
    X, y = draw(400, 2, 0)
    more = RFLAFClassifier(16, random_state=0).partial_fit(X, y, classes=[0, 1])
    more.predict_proba(NEW, return_std=True)
    for model in (RFLAFClassifier.convex(8, random_state=0).fit(X, y), fitted.prune(4, X), more.partial_fit(X, y)):
        with pytest.raises(InvalidParameterError, match="return_std=True needs"):
            model.predict_proba(NEW, return_std=True)


def test_the_law_of_the_last_layer_is_that_of_a_weighted_regression():
    rng = np.random.default_rng(0)
    z, curvature = rng.standard_normal((50, 4)) + 3, rng.uniform(0.1, 1, 50)
    new, one = rng.standard_normal((7, 4)), np.ones((50, 1))
    rows = np.hstack([one, z])
    inverse = np.linalg.inv((rows * curvature[:, None]).T @ rows)
    expected = [np.append(1, x) @ inverse @ np.append(1, x) for x in new]
    found = Doubt.of(z, curvature, np.array([1.0, 4.0]), ridge=0.0).of_features(new)
    assert_allclose(found, np.outer(expected, [1, 4]), rtol=1e-10)


@pytest.mark.parametrize("several", [False, True])
def test_deviations_are_those_of_drawn_log_odds(several):
    rng = np.random.default_rng(0)
    f, variance = rng.standard_normal((4, 3)), rng.uniform(0.01, 0.4, (4, 3))
    drawn = f + np.sqrt(variance) * rng.standard_normal((40_000, 4, 3))
    p = expit(drawn) if several else softmax(drawn, axis=2)
    assert_allclose(deviations(f, variance, several), p.std(axis=0), rtol=0.1)
    assert_allclose(
        deviations(f[:, :1], variance[:, :1], False), np.tile(expit(drawn[..., :1]).std(axis=0), 2), rtol=0.05
    )


@pytest.mark.parametrize("loss", [Logistic(), Softmax()])
def test_models_of_folds_tell_the_variance_of_a_mean(loss):
    """A model whose log odds are means over its rows: the jackknife is exact but for chance."""
    rng = np.random.default_rng(0)
    n_rows, n_folds, n_shared = 60, 5, 40
    values = rng.standard_normal((n_rows, 2))
    folds = [(np.setdiff1d(np.arange(n_rows), np.arange(k, n_rows, n_folds)), np.arange(k, n_rows, n_folds))
             for k in range(n_folds)]  # fmt: skip
    shared = np.array([np.tile(values[kept].mean(axis=0), (n_shared, 1)) for kept, _ in folds])
    table = SimpleNamespace(X=np.arange(n_rows, dtype=float)[:, None])
    hunt = Hunt(table, None, None, tuple(folds), 0, 1.0, shared=np.arange(n_shared))
    refits = refits_of(SimpleNamespace(hunt=hunt, shared=shared, shape=SimpleNamespace(loss=loss)), n_rows)
    assert refits.kept == 0.8
    assert_array_equal(refits.X[:, 0], np.arange(n_shared))  # a row is held out by one model; four tell
    of_models = centred(shared) if isinstance(loss, Softmax) else shared
    for row in (0, 7, 23):
        others = [of_models[k, row] for k in range(n_folds) if k != row % n_folds]
        assert_allclose(refits.variance[row], np.var(others, axis=0, ddof=1) * 16 / 5, rtol=1e-12)


def test_differences_of_linear_models_give_the_level_of_their_variance():
    rng = np.random.default_rng(0)
    n_rows, width, noise = 400, 12, 0.7
    level = []
    for _ in range(20):
        X = rng.standard_normal((n_rows, width))
        y = noise * rng.standard_normal(n_rows)
        final, off = X @ np.linalg.lstsq(X, y)[0], np.empty(n_rows)
        for k in range(5):
            out, kept = np.arange(n_rows) % 5 == k, np.arange(n_rows) % 5 != k
            off[out] = X[out] @ np.linalg.lstsq(X[kept], y[kept])[0] - final[out]
        hat = np.einsum("ij,ji->i", X, np.linalg.solve(X.T @ X, X.T))
        curvature = np.full((n_rows, 1), noise**-2)
        level.append(_of_differences(off[:, None], hat[:, None], curvature, 0.8)[0])
    assert_allclose(np.mean(level), noise**2, rtol=0.15)
