"""The mean of a refined model and of simpler ones is one model, of the width asked for, that says what they say."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from rflaf import RFLAFClassifier, RFLAFRegressor
from rflaf.functions.bases import BSplineBasis
from rflaf.model.indicators import fold_indicators
from rflaf.training import blend as blending
from rflaf.training import refined as steps
from rflaf.training.levels import with_indicators
from rflaf.training.rivals import ADDITIVE, LINEAR

WIDTH = 48


def noisy(rng, n_rows=70):
    """Rows whose target is nearly additive and mostly noise: no kind of model stands out."""
    X = rng.standard_normal((n_rows, 3))
    return X, X[:, 0] + 0.5 * np.abs(X[:, 1]) + rng.standard_normal(n_rows)


def noisy_table(rng):
    X, y = noisy(rng)
    place = rng.choice(list("abc"), len(y))
    return pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "place": place}), y + (place == "a")


@pytest.fixture(scope="module", params=[noisy, noisy_table])
def blended(request):
    """The first of some fits that blends: the model, its targets, and what the blend was made of."""
    seen, blend = [], steps.blend

    def watched(fit, rivals, found):
        answer = blend(fit, rivals, found)
        seen.append((fit, rivals, found, answer))
        return answer

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(steps, "blend", watched)
        for seed in range(12):
            X, y = request.param(np.random.default_rng(seed))
            model = RFLAFRegressor(WIDTH, random_state=seed).fit(X, y)
            if seen[-1][-1] is not None:
                return model, y, *seen[-1]
    raise AssertionError("no fit blends")


@pytest.mark.slow
def test_the_answer_is_the_mean_of_its_parts_up_to_the_intercept(blended):
    model, _, fit, _, found, mixed = blended
    rows = found.hunt.table.X.astype(np.float64)
    simple = [rival.finish().model for rival in mixed.rivals]
    if any(fit.spec.levels):
        mean = with_indicators(fit).problem.moments.X.mean
        simple = [fold_indicators(part, fit.spec.levels, mean) for part in simple]
    answers = [part.decision(rows)[:, 0] for part in simple]
    width = mixed.found.shape.n_components
    features, v = model.model_.features(rows), model.model_.v[:, 0]
    off = (1 + len(answers)) * features[:, width:] @ v[width:] - np.sum(answers, axis=0)
    np.testing.assert_allclose(off, off.mean(), atol=1e-8 * np.std(answers))
    np.testing.assert_allclose(model.model_.decision(rows)[:, 0], features @ v + model.model_.intercept, rtol=1e-9)
    assert model.model_.n_components == WIDTH


@pytest.mark.slow
def test_the_mean_does_better_on_the_rows_held_out_than_the_model_it_replaces(blended):
    model, y, fit, rivals, found, mixed = blended
    alone = steps.better_rival(fit, rivals, found)
    replaced = found.error if alone is None else alone.held_out.error / np.var(y)
    assert mixed.found.error < replaced
    np.testing.assert_allclose(model.cv_error_, mixed.found.error * np.var(y), rtol=1e-6)


@pytest.mark.slow
def test_a_model_that_the_rows_held_out_tell_from_the_others_stays_alone():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 3))
    exact = RFLAFRegressor(WIDTH, random_state=0).fit(X, X @ [1.0, -2.0, 0.5])
    assert exact.model_.describe()["form"] == "linear"


@pytest.mark.parametrize("degree", [1, 2, 3])
def test_b_splines_give_a_line_exactly_within_their_interval(degree):
    basis = BSplineBasis(9, degree, (-2.0, 5.0))
    averages = basis.interval[0] + basis.step * (np.arange(9) - (degree - 1) / 2)
    z = np.linspace(-2, 5, 101)
    np.testing.assert_allclose(basis.values(z) @ averages, z, atol=1e-12)


LABELS = {
    "two classes": (RFLAFClassifier, {}, lambda f, rng: (f + rng.logistic(size=f.size) > 0).astype(int)),
    "three classes": (RFLAFClassifier, {}, lambda f, rng: np.digitize(f + rng.logistic(size=f.size), [-1, 1])),
    "counts": (RFLAFRegressor, {"loss": "poisson"}, lambda f, rng: rng.poisson(np.exp(f / 2))),
}


@pytest.mark.parametrize("factor", [1.0, 0.5])
@pytest.mark.parametrize("kind", LABELS)
def test_under_other_losses_the_mean_is_that_of_outputs_intercepts_included(kind, factor, monkeypatch):
    made, seen, rng = blending.blend, [], np.random.default_rng(0)
    monkeypatch.setattr(blending, "_is_as_good", lambda losses, best: True)
    monkeypatch.setattr(blending, "_PAYS", -1e9)
    monkeypatch.setattr(blending, "_PAYS_OVER_A_LINE", -1e9)
    monkeypatch.setattr(blending, "preferred_rival", lambda fit, rivals, losses: None)
    monkeypatch.setattr(steps, "blend", lambda *given: seen.append((given[0], made(*given))) or seen[-1][1])
    monkeypatch.setattr(steps, "temperature", lambda *given: factor)
    X = rng.normal([0, 5, -3], 1, (120, 3))
    estimator, arguments, draw = LABELS[kind]
    y = draw(X[:, 0] + np.abs(X[:, 1] - 5), rng)
    model = estimator(WIDTH, random_state=0, **arguments).fit(X, y).model_
    ((fit, mixed),) = seen
    assert [rival.name for rival in mixed.rivals] == [LINEAR, ADDITIVE]
    width, units, n_parts = mixed.found.shape.n_components, fit.problem.units, 1 + len(mixed.rivals)
    base = units.shift + units.stretch * fit.problem.base
    refined = n_parts / factor * (model.features(X)[:, :width] @ model.v[:width])
    mean = base + (model.decision(X) - base) / factor
    simple = [rival.finish().model.decision(X) for rival in mixed.rivals]
    np.testing.assert_allclose(n_parts * mean, base + refined + np.sum(simple, axis=0), atol=1e-5)
    assert model.n_components == WIDTH


def test_models_too_wide_together_are_blended_one_at_a_time(monkeypatch):
    tried = []

    def mean_with(fit, rivals, found):
        tried.append([rival.name for rival in rivals])
        return made(fit, rivals, found) if len(rivals) == 1 else None

    made = blending._mean_with
    monkeypatch.setattr(blending, "_mean_with", mean_with)
    monkeypatch.setattr(blending, "_is_as_good", lambda losses, best: True)
    monkeypatch.setattr(blending, "_PAYS", -1e9)
    monkeypatch.setattr(blending, "preferred_rival", lambda fit, rivals, losses: None)
    X, y = noisy(np.random.default_rng(0))
    model = RFLAFRegressor(WIDTH, random_state=0).fit(X, y)
    assert tried == [[LINEAR, ADDITIVE], [LINEAR]]
    assert model.model_.n_components == WIDTH
