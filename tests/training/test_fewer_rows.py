"""A point of the learning curve: models of fewer rows judge rows they have not seen; intervals are the narrower."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from rflaf import RFLAFClassifier, RFLAFRegressor
from rflaf.functions.losses import Pinball, Squared
from rflaf.model.intervals import Radii
from rflaf.rows.executors import ThreadExecutor
from rflaf.training import calibration, refined
from rflaf.training.calibration import error_bands
from rflaf.training.fewer_rows import judge_by_fewer
from rflaf.training.held_out import FewerRows, Judged

QUICK = {"n_components": 8, "alpha": 1e-4, "curves": False, "random_state": 0, "n_jobs": 1}


def wound(n_rows, seed=0):
    X = np.random.default_rng(seed).uniform(-2, 2, (n_rows, 4))
    return X, 2 * np.sin(X[:, 0] * X[:, 1]) + X[:, 2] ** 2 / 2 + X[:, 3]


@pytest.fixture
def seen(monkeypatch):
    """What fits ask for, and are told, of fewer rows."""
    calls = []

    def spy(fit, found):
        calls.append((fit, found, judge_by_fewer(fit, found)))
        return calls[-1][2]

    monkeypatch.setattr(refined, "judge_by_fewer", spy)
    return calls


@pytest.mark.parametrize(("n_rows", "n_splits"), [(600, 2), (1200, 1), (3100, 1)])
def test_rows_are_judged_by_models_that_saw_two_fifths_of_all_and_none_of_them(seen, n_rows, n_splits):
    RFLAFRegressor(**QUICK).fit(*wound(n_rows))
    ((fit, found, fewer),) = seen
    hunt = found.hunt.with_fewer_rows(3, judged_by_all=n_rows <= 1000)
    assert len(hunt.splits) == n_splits
    assert_array_equal(hunt.held_out, found.hunt.held_out[: hunt.held_out.size])
    for kept, judged in hunt.splits:
        assert kept.size == pytest.approx(0.4 * n_rows, abs=2)
        assert not np.isin(judged, kept).any()
    assert len(fewer.f) == hunt.held_out.size
    assert fewer.power == pytest.approx(np.log(0.8) / np.log(0.5), rel=0.01)
    shape = replace(found.shape, n_components=found.trials[0].width)
    with ThreadExecutor() as executor:
        trials = hunt.compare([(shape, recipe) for recipe in found.recipes], executor)
    outputs = np.mean([trial.outputs for trial in trials], axis=0, dtype=np.float64)
    units = fit.problem.units
    assert_allclose(fewer.f, units.centre + units.scale * outputs, rtol=1e-6)


def test_few_rows_groups_classes_and_means_with_simpler_models_have_no_such_point(seen):
    X, y = wound(600)
    RFLAFRegressor(**QUICK).fit(X[:400], y[:400])
    RFLAFRegressor(**QUICK).fit(X, y, groups=np.arange(600) % 50)
    RFLAFClassifier(**QUICK).fit(X, y > 1)
    assert [fewer for *_, fewer in seen] == [None] * 3
    assert judge_by_fewer(*seen[0][:2]) is None


def test_predictions_are_bit_equal_without_it(monkeypatch):
    X, y = wound(600)
    with_it = RFLAFRegressor(**QUICK).fit(X, y)
    monkeypatch.setattr(refined, "judge_by_fewer", lambda fit, found: None)
    without = RFLAFRegressor(**QUICK).fit(X, y)
    assert_array_equal(with_it.predict(X), without.predict(X))
    assert (np.diff(with_it.predict_interval(X, 0.5)) < np.diff(without.predict_interval(X, 0.5))).all()


def errors(n_rows=900, share=0.6, growth=1.2):
    """Rows held out whose errors, by models of fewer rows, are ``growth`` times as large."""
    rng = np.random.default_rng(0)
    off, weight = rng.standard_normal((n_rows, 1)), rng.uniform(0.5, 2, n_rows)
    y, k = rng.standard_normal((n_rows, 1)), round(share * n_rows)
    fewer = FewerRows(y[:k] - growth * off[:k], 0.32)
    X = np.zeros((n_rows, 1))  # nothing to follow the row by
    return Judged(X, np.arange(n_rows), y, y - off, weight), fewer


@pytest.mark.parametrize(("growth", "gain"), [(1.0, 1.0), (1.2, 1.03 * 1.2**-0.32), (3.0, 0.9), (0.8, 1.0)])
def test_radii_fall_as_errors_fall_with_the_number_of_rows(monkeypatch, growth, gain):
    monkeypatch.setattr(calibration, "_LEAST_ROWS", 10**6)  # one size for all
    rows, fewer = errors(growth=growth)
    plain, nearer = (
        error_bands(Judged(**{**as_dict(rows), "fewer": point}), Squared(), np.ones(1)) for point in (None, fewer)
    )
    for level in (0.3, 0.8, 0.95):
        assert_allclose(nearer.below.at(level), gain * plain.below.at(level), rtol=1e-3)
    assert nearer.below.at(899 / 901) == pytest.approx(plain.below.at(899 / 901), rel=0.01)  # the farthest stay
    assert_array_equal(nearer.deviation, plain.deviation)
    one_sided = error_bands(Judged(**{**as_dict(rows), "fewer": fewer}), Pinball(0.5, 0.01), np.ones(1))
    assert_allclose(one_sided.above.at(0.9), error_bands(rows, Pinball(0.5, 0.01), np.ones(1)).above.at(0.9))


def as_dict(rows):
    return {name: getattr(rows, name) for name in ("X", "rows", "y", "f", "weight")}


def test_radii_times_falling_factors_still_rise():
    radii = Radii(np.array([0.25, 0.5, 0.75]), np.array([[1.0], [2.0], [2.1]]))
    found = radii.times(np.array([0.0, 0.5, 1.0]), np.array([[1.0], [1.0], [0.5]])).radii
    assert_allclose(found, [[1.0], [2.0], [2.0]])


@pytest.mark.slow
def test_intervals_of_a_truth_without_noise_are_nearer_to_their_coverage(monkeypatch):
    X_new, y_new = wound(4000, seed=9)

    def coverage():
        low, high = RFLAFRegressor(24, random_state=0, n_jobs=1).fit(*wound(600)).predict_interval(X_new, 0.8).T
        return np.mean((low <= y_new) & (y_new <= high))

    nearer = coverage()
    monkeypatch.setattr(refined, "judge_by_fewer", lambda fit, found: None)
    assert 0.8 < nearer < coverage() - 0.02
