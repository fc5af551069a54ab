"""Metrics of estimators agree with those of scikit-learn."""

import numpy as np
import pytest
from sklearn import metrics as measures

from rflaf import RFLAFClassifier, RFLAFRegressor
from rflaf.estimators.metrics import calibration_error, levels_of, metrics_of, quantile_metrics
from rflaf.functions.losses import Pinball, Quantiles, Squared

X = np.random.default_rng(0).uniform(-2, 2, (120, 2))
SETTINGS = {"directions": "random", "random_state": 0}


def test_metrics_of_a_regressor_are_those_of_scikit_learn():
    y = np.sin(X[:, 0])
    model = RFLAFRegressor(3, **SETTINGS).fit(X, y)
    predicted = model.predict(X)
    found = metrics_of(y, predicted)
    assert list(found) == ["r2", "rmse", "mae"]
    assert found["r2"] == pytest.approx(measures.r2_score(y, predicted))
    assert found["rmse"] == pytest.approx(measures.root_mean_squared_error(y, predicted))
    assert found["mae"] == pytest.approx(measures.mean_absolute_error(y, predicted))


def test_pinball_losses_are_those_of_scikit_learn_and_shares_are_counted():
    rng = np.random.default_rng(1)
    y, predicted, levels = rng.standard_normal(50), np.sort(rng.standard_normal((50, 3)), axis=1), (0.05, 0.5, 0.9)
    found = quantile_metrics(y, predicted, levels)
    losses = [measures.mean_pinball_loss(y, predicted[:, at], alpha=level) for at, level in enumerate(levels)]
    assert [found[f"pinball({level:g})"] for level in levels] == pytest.approx(losses)
    assert found["pinball"] == pytest.approx(np.mean(losses))
    assert found["below(0.9)"] == sum(y <= predicted[:, 2]) / 50


def test_the_mean_loss_of_many_even_quantiles_is_half_the_ranked_probability_score():
    rng = np.random.default_rng(2)
    drawn, y, levels = rng.standard_normal(400), rng.standard_normal(5), (np.arange(400) + 0.5) / 400
    loss = quantile_metrics(y, np.tile(np.sort(drawn), (5, 1)), levels)["pinball"]
    pairs = np.abs(drawn[:, None] - drawn).mean() / 2
    assert 2 * loss == pytest.approx(np.abs(y[:, None] - drawn).mean() - pairs, rel=1e-9)


def test_a_loss_knows_its_quantiles():
    assert levels_of(Quantiles((0.1, 0.9))) == (0.1, 0.9)
    assert levels_of(Pinball(0.3)) == (0.3,)
    assert levels_of(Squared()) == ()


@pytest.mark.parametrize("n_classes", [2, 3])
def test_metrics_of_a_classifier_are_those_of_scikit_learn(n_classes):
    y = np.array(["a", "b", "c"])[np.digitize(X[:, 0], [-0.3, 0.5][: n_classes - 1])]
    model = RFLAFClassifier(3, **SETTINGS).fit(X, y)
    probability = model.predict_proba(X)
    found = metrics_of(y, model.predict(X), model.classes_, probability)
    assert found["accuracy"] == pytest.approx(model.score(X, y))
    assert found["log_loss"] == pytest.approx(measures.log_loss(y, probability))
    brier = measures.brier_score_loss(y, probability, labels=model.classes_)
    assert found["brier"] == pytest.approx(brier)
    assert ("auc" in found) == (n_classes == 2)
    if n_classes == 2:
        assert found["auc"] == pytest.approx(measures.roc_auc_score(y == "b", probability[:, 1]))


def test_unknown_labels_count_as_errors():
    y = np.where(X[:, 0] > 0, "a", "b")
    model = RFLAFClassifier(3, **SETTINGS).fit(X, y)
    found = metrics_of(np.full(len(X), "z"), model.predict(X), model.classes_, model.predict_proba(X))
    assert found == {"accuracy": 0.0}


def test_the_variance_explained_of_a_constant_target_is_not_known():
    assert np.isnan(metrics_of(np.ones(5), X[:5, 0])["r2"])


@pytest.mark.parametrize("n_classes", [2, 5])
def test_the_calibration_error_is_the_mean_gap_over_bins(n_classes):
    rng = np.random.default_rng(n_classes)
    P, code = rng.dirichlet(np.ones(n_classes), 400), rng.integers(n_classes, size=400)
    gaps = 0.0
    for low in np.arange(15) / 15:
        inside = (P.max(axis=1) >= low) & (P.max(axis=1) < low + 1 / 15)
        if inside.any():
            right = np.mean(P[inside].argmax(axis=1) == code[inside])
            gaps += inside.mean() * abs(P[inside].max(axis=1).mean() - right)
    assert calibration_error(code, P) == pytest.approx(gaps)
    truth = np.array([rng.choice(n_classes, p=p) for p in P])
    assert calibration_error(truth, P) < calibration_error(code, P)
