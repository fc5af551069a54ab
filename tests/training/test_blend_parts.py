"""What a blend is made of, number for number and without a fit: who takes part, what the mean must win, lines."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from rflaf.functions.bases import BSplineBasis, RBFBasis
from rflaf.functions.curves import ColumnCurves, Knots
from rflaf.functions.densities import Directions, Gaussian
from rflaf.model.random_feature_model import Activation, RandomFeatureModel
from rflaf.training import blend as blending
from rflaf.training.rivals import ADDITIVE, LINEAR, LINES, Rival
from rflaf.training.solvers.refined.trainer import Shape

BASIS = BSplineBasis(9, 3, (-2.0, 5.0))
LOSSES = np.array([2.0, 2.0, 2.0, 2.0])


def rival(name, losses=LOSSES, outputs=0.0, model=None):
    losses = np.asarray(losses, float)
    return Rival(name, np.full((4, 1), outputs), losses, lambda: SimpleNamespace(model=model))


def context(basis=BASIS, stretch=(1.0,), shift=(0.0,)):
    """The parts of a fit that a blend reads."""
    units = SimpleNamespace(shift=np.array(shift), stretch=np.array(stretch))
    moments = SimpleNamespace(X=SimpleNamespace(mean=None))
    return SimpleNamespace(
        spec=SimpleNamespace(basis=basis, levels=()), problem=SimpleNamespace(units=units, moments=moments)
    )


def settled(**changes):
    """The parts of a search that `blend` reads."""
    hunt = SimpleNamespace(losses=lambda loss, outputs: LOSSES)
    given = {"outliers": None, "whole": False} | changes
    return SimpleNamespace(
        outliers=given["outliers"], shape=SimpleNamespace(whole=given["whole"], loss=None), outputs=None, hunt=hunt
    )


@pytest.fixture
def blended(monkeypatch):
    """`blend` with a preferred rival and the errors of means given; what it tried, and the names of its answer."""

    def run(rivals, errors, alone=None, basis=BASIS, **changes):
        tried = []

        def mean_with(fit, some, found):
            tried.append([one.name for one in some])
            error = errors.get(len(some))
            return None if error is None else SimpleNamespace(found=SimpleNamespace(error=error), rivals=some)

        monkeypatch.setattr(blending, "preferred_rival", lambda *given: alone)
        monkeypatch.setattr(blending, "_mean_with", mean_with)
        answer = blending.blend(context(basis), rivals, settled(**changes))
        return tried, None if answer is None else [one.name for one in answer.rivals]

    return run


BOTH = [rival("the mean"), rival(LINEAR), rival(ADDITIVE)]


def test_nothing_is_blended_with_outliers_whole_models_or_other_rows(blended):
    assert blended(BOTH, {2: 0.0}) == ([[LINEAR, ADDITIVE]], [LINEAR, ADDITIVE])
    assert blended(BOTH, {2: 0.0}, outliers="some") == ([], None)
    assert blended(BOTH, {2: 0.0}, whole=True) == ([], None)
    assert blended([], {2: 0.0}) == ([], None)
    assert blended([rival(LINEAR, LOSSES[:3]), *BOTH[2:]], {2: 0.0}) == ([], None)
    assert blended(BOTH, {2: 0.0}, alone=BOTH[0]) == ([], None)
    assert blended(BOTH, {2: 0.0}, basis=RBFBasis(9)) == ([[ADDITIVE]], None)  # of one kind once


def test_simpler_models_are_tried_together_and_then_alone(blended):
    assert blended(BOTH, {1: 0.0}) == ([[LINEAR, ADDITIVE], [LINEAR]], [LINEAR])
    assert blended(BOTH, {2: 1.999, 1: 1.98}) == ([[LINEAR, ADDITIVE], [LINEAR]], [LINEAR])
    assert blended(BOTH, {}) == ([[LINEAR, ADDITIVE], [LINEAR], [ADDITIVE]], None)
    assert blended(BOTH[2:], {1: 0.0}) == ([[ADDITIVE]], [ADDITIVE])


@pytest.mark.parametrize(("alone", "pays"), [(None, 0.995 * 2), (ADDITIVE, 0.995 * 1.9), (LINEAR, 0.95 * 1.9)])
def test_the_mean_wins_half_a_percent_and_five_over_a_line(blended, alone, pays):
    alone = alone and rival(alone, LOSSES - 0.1)
    for error, names in ((pays * (1 - 1e-9), [LINEAR, ADDITIVE]), (pays * (1 + 1e-9), None)):
        assert blended(BOTH, {2: error}, alone)[1] == names


def test_models_are_as_good_within_two_standard_errors_and_half_more_error():
    def are_as_good(losses):
        return [one.name for one in blending._as_good([rival(LINEAR, losses), rival(ADDITIVE)], LOSSES)] == [
            LINEAR,
            ADDITIVE,
        ]

    assert are_as_good([2.0, 2.0, 2.0, 6.0])  # by chance of one row, and just half more
    assert not are_as_good([2.0, 2.0, 2.0, 6.01])
    assert not are_as_good([2.1, 2.1, 2.1, 2.1])  # little, but always
    assert not are_as_good([2.0, 2.0, 2.0, np.inf])
    better = rival(LINEAR, LOSSES - [0.1, 0.1, 0.1, 0.11])
    assert blending._as_good([better, rival(ADDITIVE)], LOSSES) == []  # the refined model is told from the line


@dataclass(frozen=True)
class Found:
    """The parts of a search that its mean with simpler models reads."""

    hunt: SimpleNamespace
    shape: Shape
    outputs: np.ndarray


def components(width):
    return SimpleNamespace(intercept=np.array([8.0]), directions=SimpleNamespace(n_components=width))


def test_the_refined_part_has_the_components_that_are_left_if_they_are_half(monkeypatch):
    widths = {LINEAR: 1, ADDITIVE: 3}
    monkeypatch.setattr(blending, "with_indicators", lambda fit: fit)
    monkeypatch.setattr(blending, "_model_of", lambda fit, one, mean: components(widths[one.name]))
    monkeypatch.setattr(blending, "_part", lambda fit, one, model, X: model)
    hunt = SimpleNamespace(table=SimpleNamespace(X=None))
    outputs, fit = np.full((4, 1), 3.0), context(stretch=(2.0,), shift=(5.0,))
    some = [rival(LINEAR, outputs=6.0), rival(ADDITIVE, outputs=0.0)]
    for width, left in ((8, 4), (9, 5), (7, None)):
        found = Found(hunt, Shape(width, BASIS, False, Gaussian()), outputs)
        mixed = blending._mean_with(fit, some, found)
        assert (mixed and mixed.found.shape.n_components) == left
        if mixed is not None:
            assert_array_equal(mixed.found.outputs, np.full((4, 1), 3.0))
            assert_array_equal(mixed.intercepts, [[1.5], [1.5]])
            assert_array_equal(mixed.intercept(np.array([6.0])), [3.0])
        one = blending._mean_with(fit, some[:1], found)
        assert one.found.shape.n_components == width - 1
        assert_array_equal(one.found.outputs, np.full((4, 1), 4.5))
        assert blending._mean_with(fit, [], found) is None


def test_units_of_constant_targets_are_one():
    assert_array_equal(blending._stretch(context(stretch=(0.0, 0.5, -2.0))), [1.0, 0.5, -2.0])


RNG = np.random.default_rng(0)
X = RNG.normal([0, 5, 1], [1, 3, 0.2], (30, 3))


def model_with(activation, n_outputs=2, width=4):
    """A model with curves on its second column, importance and offsets."""
    directions = Directions(
        RNG.standard_normal((3, width)), RNG.standard_normal(width), np.arange(1.0, 1 + width), width
    )
    directions.W[:, 0] = 0  # a constant projection, but for its curve
    nodes = np.array([2.0, 4.0, 9.0])
    values = RNG.standard_normal((3, width)) * (np.arange(width) > 0)
    curves = ColumnCurves(Knots(np.array([1]), np.array([0, 3]), nodes), values)
    v, intercept = RNG.standard_normal((width, n_outputs)), RNG.standard_normal(n_outputs)
    return RandomFeatureModel(directions, activation, v, intercept, curves)


def answers(part, rows, basis=BASIS):
    model = RandomFeatureModel(part.directions, Activation(basis, part.a), part.V, np.zeros(2), part.curves)
    return model.decision(rows)


@pytest.mark.parametrize("coefficients", [RNG.standard_normal((1, 9)), RNG.standard_normal((4, 9))])
def test_a_simpler_model_is_a_part_in_the_units_of_the_fit(coefficients):
    model = model_with(Activation(BASIS, coefficients))
    part = blending._part(context(stretch=(2.0, 0.0)), rival(ADDITIVE), model, X)
    expected = (model.decision(X) - model.intercept) / [2.0, 1.0]
    assert_allclose(answers(part, X), expected, rtol=1e-9, atol=1e-9)
    assert part.a.shape == (4, 9)
    assert_array_equal(part.directions.importance, np.ones(4))


def test_lines_are_parts_that_end_at_four_times_the_range_of_the_rows():
    model = model_with(Activation(LINES, np.full((1, 1), 1.5)))
    part = blending._part(context(stretch=(2.0, 0.5)), rival(LINEAR), model, X)
    expected = (model.decision(X) - model.intercept) / [2.0, 0.5]
    assert_allclose(answers(part, X), expected, rtol=1e-8, atol=1e-8)
    far = X[0] + np.linspace(-200, 200, 4001)[:, None] * [1.0, 0.0, 0.0]
    u = model.projections(X)
    low, high = u.min(axis=0), u.max(axis=0)
    half = np.where(high > low, (high - low) / 2, 1.0)
    held = np.clip(model.projections(far), (low + high) / 2 - 4 * half, (low + high) / 2 + 4 * half)
    v = model.v * model.directions.importance[:, None] * 1.5 / [2.0, 0.5]
    assert_allclose(answers(part, far), held @ v, rtol=1e-7, atol=1e-7)
    assert (held != model.projections(far)).any()


def test_a_line_is_one_component_and_another_model_keeps_its_own():
    line, sums = model_with(Activation(LINES, np.ones((1, 1)))), model_with(Activation(BASIS, np.ones((1, 9))))
    joined = blending._model_of(context(), rival(LINEAR, model=line), np.zeros(3))
    assert joined.n_components == 2  # one for each output
    assert blending._model_of(context(), rival(ADDITIVE, model=sums), np.zeros(3)) is sums


def test_a_projection_that_is_the_same_at_every_row_counts_as_one_of_half_a_range_of_one():
    directions = Directions(np.array([[0.0], [1.0], [0.0]]), np.array([2.0]), np.ones(1), 1)
    line = RandomFeatureModel(directions, Activation(LINES, np.ones((1, 1))), np.array([[1.0, -2.0]]), np.zeros(2))
    rows = np.array([[0.0, 5.0, 0.0]] * 3)
    part = blending._part(context(stretch=(1.0, 1.0)), rival(LINEAR), line, rows)
    assert_allclose(part.directions.W, [[0.0], [3.5 / 4], [0.0]], rtol=1e-12)  # half the interval over four half-ranges
    assert_allclose(answers(part, rows), [[7.0, -14.0]] * 3, rtol=1e-9)
