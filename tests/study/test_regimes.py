"""The settings where leverage scores spread, their densities, and what leverage sampling gains there."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.integrate

from rflaf.functions.densities import Density
from rflaf.study import experiments, figures, paired, regimes
from rflaf.study.trials import Trial

TRIAL = Trial("too-long", "regimes", "rbf", 17, "leverage", 60, 0, 5)


@pytest.fixture(scope="module")
def pool():
    X, y, _, _ = regimes.REGIMES["too-long"].draw(0)
    return regimes.fit_pool(regimes.REGIMES["too-long"], 60, 0, X[:400], y[:400])


@pytest.mark.parametrize("name", regimes.NAMES)
def test_a_regime_draws_rows_and_a_target_of_unit_deviation(name):
    X, y, X_test, y_test = regimes.REGIMES[name].draw(3)
    assert X.shape == (regimes.N_TRAIN, regimes.REGIMES[name].n_features)
    assert X_test.shape[0] == regimes.N_TEST == y_test.size
    assert np.std(y_test) == pytest.approx(1, abs=0.1)
    assert np.std(y) == pytest.approx(1, abs=0.1)
    assert np.array_equal(regimes.REGIMES[name].draw(3)[1], y)


@pytest.mark.parametrize("density", [regimes.TwoLengths(0.3, 5.0), regimes.FewColumns(1, 2.0)])
def test_the_densities_integrate_to_one_on_a_line(density):
    assert isinstance(density, Density)
    mass, _ = scipy.integrate.quad(lambda w: np.exp(density.log_density(np.array([[w]]))[0]), -40, 40, limit=200)
    assert mass == pytest.approx(1, abs=1e-6)


def test_two_lengths_come_in_their_shares():
    W = regimes.TwoLengths(0.9, 100.0).sample(3, 4000, np.random.default_rng(0))
    assert np.mean(np.linalg.norm(W, axis=0) > 20) == pytest.approx(0.9, abs=0.03)


def test_few_columns_have_as_many_entries_and_no_density_elsewhere():
    density = regimes.FewColumns(2)
    W = density.sample(20, 500, np.random.default_rng(0))
    assert (np.count_nonzero(W, axis=0) == 2).all()
    by_hand = -0.5 * np.sum(W**2, axis=0) - np.log(2 * np.pi) - np.log(20 * 19 / 2)
    assert density.log_density(W) == pytest.approx(by_hand)
    assert density.log_density(np.ones((20, 1)))[0] == -np.inf


def test_schemes_keep_columns_of_one_pool_with_their_importance(pool):
    plain = regimes.keep(pool, replace(TRIAL, scheme="plain"))
    assert np.array_equal(plain.W, pool.W[:, :5])
    assert np.array_equal(plain.importance, np.ones(5))
    assert np.array_equal(regimes.keep(pool, replace(TRIAL, scheme="placebo")).importance, np.ones(5))
    drawn = regimes.keep(pool, TRIAL)
    indices = [int(np.flatnonzero((column[:, None] == pool.W).all(axis=0))[0]) for column in drawn.W.T]
    assert drawn.importance == pytest.approx(1 / np.sqrt(60 * pool.probabilities[indices]))
    apart = regimes.keep(pool, replace(TRIAL, scheme="without_replacement", width=40))
    assert np.unique(apart.W, axis=1).shape[1] == 40


def test_an_estimator_takes_the_directions_drawn_as_they_are(pool):
    X, y, _, _ = regimes.REGIMES["too-long"].draw(0)
    kept = regimes.keep(pool, TRIAL)
    model = regimes._estimator(5, regimes.Drawn(kept), "exact", 0).fit(X[:300], y[:300])
    assert np.array_equal(model.model_.directions.W, kept.W)
    assert np.array_equal(model.model_.directions.importance, kept.importance)


@pytest.mark.slow
def test_leverage_gains_where_scores_spread_and_the_gain_is_drawn(tmp_path):
    trials = [
        Trial("too-long", "regimes", "rbf", 17, scheme, 500, seed, 100)
        for seed in range(3)
        for scheme in ("plain", "leverage", "placebo")
    ]
    groups = [tuple(trial for trial in trials if trial.seed == seed) for seed in range(3)]
    records = [record for group in groups for record in regimes.run(group)]
    found = {(one.scheme, one.against): one for one in paired.differences(records)}
    assert found["leverage", "plain"].change < -0.3
    assert found["leverage", "placebo"].change < -0.3
    assert abs(found["placebo", "plain"].change) < abs(found["leverage", "plain"].change)
    assert found["leverage", "plain"].spread > 4
    paths = figures.draw_gains(experiments.read("regimes"), list(found.values()), tmp_path)
    assert all(path.stat().st_size > 1000 for path in paths)
    assert "too-long" in paths[1].read_text()
