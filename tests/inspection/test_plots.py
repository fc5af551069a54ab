"""Every picture: what is drawn are the numbers, it looks as it did, and it says no in words."""

from __future__ import annotations

import os
import sys
from itertools import combinations
from pathlib import Path

import matplotlib as mpl

from rflaf import GreedySelection, LeverageSampling

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from settings import CONVEX, PAPER
from sklearn.exceptions import NotFittedError

import rflaf
from rflaf import InvalidParameterError, RFLAFClassifier, RFLAFRegressor
from rflaf.errors import MissingExtraError
from rflaf.inspection.effects import ComponentBank, Effect, PairEffect
from rflaf.inspection.plots import (
    BLUE,
    PALETTE,
    ActivationBankDisplay,
    ActivationDisplay,
    CalibrationDisplay,
    ColumnCurveDisplay,
    LeverageDisplay,
    PartialEffectDisplay,
    ResidualDisplay,
    SpectrumDisplay,
    WidthDisplay,
    require_matplotlib,
)
from rflaf.inspection.plots.labels import put_labels
from rflaf.model.greedy import Selection

pytestmark = pytest.mark.usefixtures("closed_figures")
NAMES = ["left", "right", "idle"]
BASELINES = Path(__file__).parent / "baselines"


@pytest.fixture(scope="module")
def table():
    X = pd.DataFrame(np.random.default_rng(0).standard_normal((400, 3)), columns=NAMES)
    return X, np.sin(2 * X["left"]).to_numpy() + X["right"].to_numpy() ** 2


@pytest.fixture(scope="module")
def shared(table):
    return RFLAFRegressor(10, random_state=0, sampling=LeverageSampling(80), **PAPER).fit(*table)


@pytest.fixture(scope="module")
def convex(table):
    return RFLAFRegressor(8, random_state=0, sampling=GreedySelection(60), **CONVEX).fit(*table)


@pytest.fixture(scope="module")
def bent(table):
    return RFLAFRegressor(10, random_state=0, curves=True, alpha=1e-4).fit(*table)


@pytest.fixture(scope="module")
def classifier(table):
    return RFLAFClassifier(10, random_state=0, **PAPER).fit(table[0], np.where(table[1] > 0.5, "yes", "no"))


# The learned activations


def test_the_curve_drawn_is_the_learned_activation(shared):
    display = ActivationDisplay.from_estimator(shared)
    (line,) = display.ax_.get_lines()
    np.testing.assert_array_equal(line.get_ydata(), shared.activation_(line.get_xdata()))


def test_rows_add_the_density_of_their_projections(shared, table):
    display = ActivationDisplay.from_estimator(shared, table[0])
    assert display.density.size == 60
    np.testing.assert_allclose(np.sum(display.density * np.diff(display.edges)), 1)


def test_an_activation_without_a_covariance_is_drawn_without_an_error(classifier, table):
    display = ActivationDisplay.from_estimator(classifier, table[0])
    np.testing.assert_array_equal(display.value, classifier.activation_(display.z))
    if classifier.activation_.covariance is None:
        assert not display.error.any()


def test_it_draws_on_the_axes_given(shared):
    figure, ax = plt.subplots()
    display = ActivationDisplay.from_estimator(shared, ax=ax)
    assert display.ax_ is ax
    assert display.figure_ is figure
    assert display.plot(ax=ax) is display


def test_the_picture_has_ink_where_the_curve_runs(shared, table):
    display = ActivationDisplay.from_estimator(shared, table[0])
    pixels = render(display.figure_) * 255
    blue = np.array([int(BLUE[i : i + 2], 16) for i in (1, 3, 5)])
    assert np.any(np.abs(pixels - blue).sum(axis=2) < 30, axis=0).mean() > 0.5


@pytest.mark.slow
@pytest.mark.parametrize("rung", ["bent", "convex", "shared"])
def test_a_bank_is_ranked_by_the_spread_of_its_contributions(rung, request, table):
    model = request.getfixturevalue(rung)
    bank = ActivationBankDisplay.from_estimator(model, table[0], n_shown=10).bank
    spread = (model.transform(table[0]) * model.output_weights_).std(axis=0)
    np.testing.assert_array_equal(bank.component, np.argsort(-spread, kind="stable"))
    np.testing.assert_allclose(bank.share.sum(), 1)
    np.testing.assert_allclose(np.sum(bank.density * np.diff(bank.edges), axis=1), 1)


@pytest.mark.slow
@pytest.mark.parametrize("rung", ["bent", "convex"])
def test_a_panel_of_the_bank_is_the_contribution_of_its_component(rung, request, table):
    model = request.getfixturevalue(rung)
    display = ActivationBankDisplay.from_estimator(model, table[0], n_shown=3)
    bank = display.bank
    curve = model.activation_(bank.z)[bank.component[0]] * model.output_weights_[bank.component[0]]
    np.testing.assert_allclose(bank.value[0], curve - curve.mean(), atol=1e-12)
    assert [ax.get_visible() for ax in display.axes_.flat] == [True] * 3
    np.testing.assert_array_equal(display.axes_.flat[0].get_lines()[-1].get_ydata(), bank.value[0])


def test_panels_left_over_are_hidden_and_axes_may_be_given(convex, table):
    display = ActivationBankDisplay.from_estimator(convex, table[0], n_shown=5)
    assert [ax.get_visible() for ax in display.axes_.flat] == [True] * 5 + [False] * 3
    _, axes = plt.subplots(1, 5)
    assert display.plot(ax=axes).axes_ is axes


def test_the_display_of_one_activation_refuses_a_bank_and_names_the_other(convex):
    with pytest.raises(ValueError, match="Use ActivationBankDisplay"):
        ActivationDisplay.from_estimator(convex)


# The columns


def test_the_curves_of_a_column_are_its_part_of_every_component(bent, table):
    display = ColumnCurveDisplay.from_estimator(bent, table[0], "right")
    knots, W = bent.curves_.knots, bent.directions_
    curve = list(knots.columns).index(1)
    part = bent.curves_.values[knots.start[curve] : knots.start[curve + 1]] + knots.of(curve)[:, None] * W[1]
    np.testing.assert_array_equal(display.x, knots.of(curve))
    expected = np.sort((part - part.mean(axis=0)).T, axis=0)
    np.testing.assert_allclose(np.sort(display.value, axis=0), expected, atol=1e-12)
    assert display.ax_.get_xlabel() == "right"
    assert len(display.ax_.get_lines()) == bent.n_components_


def test_a_straight_column_has_no_curves(convex, table):
    with pytest.raises(InvalidParameterError, match="PartialEffectDisplay"):
        ColumnCurveDisplay.from_estimator(convex, table[0], 0)


def test_the_partial_effect_of_a_column_is_the_mean_prediction(convex, table):
    display = PartialEffectDisplay.from_estimator(convex, table[0], "left")
    rows = table[0].copy()
    rows["left"] = display.effect.grid[7]
    assert display.effect.mean[7] == pytest.approx(convex.predict(rows).mean())
    (line,) = display.ax_.get_lines()
    np.testing.assert_array_equal(line.get_ydata(), display.effect.mean)


def test_the_partial_effect_of_a_pair_is_a_map_of_mean_predictions(convex, table):
    display = PartialEffectDisplay.from_estimator(convex, table[0], (0, "right"))
    rows = table[0].copy()
    rows["left"], rows["right"] = display.effect.first[3], display.effect.second[5]
    assert display.effect.mean[3, 5] == pytest.approx(convex.predict(rows).mean())
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("left", "right")


def test_the_effect_on_a_classifier_is_that_on_a_probability(classifier, table):
    effect = PartialEffectDisplay.from_estimator(classifier, table[0], 1).effect
    other = PartialEffectDisplay.from_estimator(classifier, table[0], 1, output=0).effect
    assert 0 <= effect.mean.min() < effect.mean.max() <= 1
    np.testing.assert_allclose(effect.mean + other.mean, 1)


@pytest.mark.parametrize("column", ["middle", 3, -1])
def test_a_column_that_is_not_there_is_named(convex, table, column):
    with pytest.raises(InvalidParameterError, match="a column must be"):
        PartialEffectDisplay.from_estimator(convex, table[0], column)


# The components


def test_the_leverage_scores_are_sorted_and_those_drawn_are_the_models(shared):
    display = LeverageDisplay.from_estimator(shared)
    assert np.all(np.diff(display.scores) <= 0)
    assert display.scores.sum() == pytest.approx(shared.effective_dimension_)
    assert np.count_nonzero(display.kept) == shared.n_components_
    np.testing.assert_array_equal(np.flatnonzero(display.kept) + 1, display.ax_.get_lines()[1].get_xdata())


def test_a_model_read_from_a_file_still_knows_who_was_drawn(shared, tmp_path):
    rflaf.save(shared, tmp_path / "model.rflaf")
    again = LeverageDisplay.from_estimator(rflaf.load(tmp_path / "model.rflaf"))
    np.testing.assert_array_equal(again.kept, LeverageDisplay.from_estimator(shared).kept)


def test_a_model_without_leverage_scores_says_so(convex):
    with pytest.raises(InvalidParameterError, match="paper"):
        LeverageDisplay.from_estimator(convex)


def test_the_effective_dimension_is_the_sum_of_shrunken_eigenvalues():
    display = SpectrumDisplay.from_eigenvalues([0.25, 1.0, 0.0], 0.25)
    np.testing.assert_array_equal(display.eigenvalues, [1, 0.25, 0])
    by_definition = [1 / (1 + lam) + 0.25 / (0.25 + lam) for lam in display.lambdas]
    np.testing.assert_allclose(display.dimension, by_definition)
    (_, marked) = display.axes_[1].get_lines()
    np.testing.assert_allclose(marked.get_ydata(), [0.8 + 0.5])


def test_pictures_of_two_panels_draw_on_the_pair_of_axes_given():
    _, pair = plt.subplots(1, 2)
    assert SpectrumDisplay.from_eigenvalues([1.0, 0.5], 0.1, ax=pair).axes_ == tuple(pair)
    assert ResidualDisplay.from_predictions([1.0, 2.0], [1.5, 2.0], ax=pair).axes_ == tuple(pair)


def test_the_spectrum_of_an_estimator_is_that_of_its_features(shared, table):
    display = SpectrumDisplay.from_estimator(shared, table[0])
    Z = shared.transform(table[0])
    K = Z @ Z.T / shared.n_components_ / np.mean(Z**2)
    np.testing.assert_allclose(display.eigenvalues, np.linalg.eigvalsh(K / 400)[::-1][:10], atol=1e-10)
    assert display.lam == 0.05


@pytest.mark.parametrize(("mu", "lam"), [([1.0], 0.0), ([1.0], np.nan), ([], 0.1), ([0.0, 0.0], 0.1)])
def test_a_spectrum_needs_a_positive_eigenvalue_and_lambda(mu, lam):
    with pytest.raises(InvalidParameterError):
        SpectrumDisplay.from_eigenvalues(mu, lam)


def test_the_path_of_widths_is_that_of_the_selection(convex):
    display = WidthDisplay.from_estimator(convex)
    path = convex.selection_
    np.testing.assert_allclose(display.error * path.errors[0], path.errors[1:])
    assert display.chosen == path.best_width(0.01)


def test_a_model_without_selection_has_the_path_of_its_last_layer(shared, classifier):
    display = WidthDisplay.from_estimator(shared)
    np.testing.assert_allclose(display.width, np.arange(1, shared.n_components_ + 1))
    with pytest.raises(InvalidParameterError, match="greedy"):
        WidthDisplay.from_estimator(classifier)


# The predictions


def test_frequencies_stand_against_the_probabilities_said(classifier, table):
    X, y = table[0], np.where(table[1] > 0.5, "yes", "no")
    display = CalibrationDisplay.from_estimator(classifier, X, y, n_bins=5)
    assert display.label == "yes"
    p = classifier.predict_proba(X)[:, 1]
    lowest = p <= np.quantile(p, 0.2)
    assert display.predicted[0] == pytest.approx(p[lowest].mean(), abs=0.01)
    assert display.observed[0] == pytest.approx(np.mean(y[lowest] == "yes"), abs=0.02)


def test_calibration_needs_probabilities(table):
    with pytest.raises(InvalidParameterError, match="log_loss"):
        CalibrationDisplay.from_estimator(
            RFLAFClassifier(4, loss="squared_hinge", random_state=0, **PAPER).fit(table[0], table[1] > 0.5),
            table[0],
            table[1] > 0.5,
        )


def test_residuals_are_observed_minus_predicted(shared, table):
    X, y = table
    display = ResidualDisplay.from_estimator(shared, X, y)
    np.testing.assert_array_equal(display.observed, y)
    assert display.error == pytest.approx(np.sqrt(np.mean((y - shared.predict(X)) ** 2)))
    np.testing.assert_allclose(np.sum(display.density * np.diff(display.edges)), 1)


@pytest.mark.slow
def test_one_output_of_many_is_shown(table):
    X = table[0].to_numpy()
    both = np.column_stack([X[:, 0], X[:, 1] ** 2])
    model = RFLAFRegressor(6, random_state=0, **PAPER).fit(X, both)
    display = ResidualDisplay.from_estimator(model, X, both, output=1)
    np.testing.assert_array_equal(display.observed, both[:, 1])


def test_exact_predictions_have_no_normal_law():
    display = ResidualDisplay.from_predictions([1.0, 2.0, 3.0], [1.0, 2.0, 3.0])
    assert display.error == 0
    assert len(display.axes_[1].get_lines()) == 1  # the zero line alone


# All of them


@pytest.mark.parametrize(
    "draw",
    [
        lambda model, X: ActivationDisplay.from_estimator(model),
        lambda model, X: ActivationBankDisplay.from_estimator(model, X),
        lambda model, X: ColumnCurveDisplay.from_estimator(model, X, 0),
        lambda model, X: PartialEffectDisplay.from_estimator(model, X, 0),
        lambda model, X: LeverageDisplay.from_estimator(model),
        lambda model, X: SpectrumDisplay.from_estimator(model, X),
        lambda model, X: WidthDisplay.from_estimator(model),
        lambda model, X: ResidualDisplay.from_estimator(model, X, X[:, 0]),
        lambda model, X: CalibrationDisplay.from_estimator(model, X, X[:, 0] > 0),
    ],
)
def test_an_unfitted_estimator_is_refused(draw):
    with pytest.raises(NotFittedError):
        draw(RFLAFRegressor(), np.zeros((3, 2)))


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(MissingExtraError, match=r"rflaf\[plots\]"):
        require_matplotlib()


def pictures() -> dict[str, object]:
    """Every Display, made of numbers that do not depend on a fit."""
    rng = np.random.default_rng(0)
    z, x, grid = np.linspace(-3, 3, 200), rng.standard_normal((300, 2)), np.linspace(-2, 2, 15)
    edges, bell = np.linspace(-3, 3, 49), np.exp(-(np.linspace(-2.94, 2.94, 48) ** 2))
    contributions, shares = np.array([np.sin(z), np.cos(2 * z)]), np.array([0.7, 0.3])
    bank = ComponentBank(z, contributions, np.array([4, 0]), shares, edges, np.array([bell, bell]))
    effect, pair = Effect(grid, grid**2, grid**2 - 0.5, grid**2 + 0.5), PairEffect(grid, grid, np.outer(grid, grid))
    errors, p = 1 / np.arange(1, 40) ** 0.7, np.linspace(0, 1, 2000)
    path = Selection(np.arange(38), errors, errors / (1 - np.arange(39) / 60) ** 2)
    return {
        "activation": ActivationDisplay(z, np.sin(2 * z), np.full(200, 0.1), edges, bell).plot(),
        "bank": ActivationBankDisplay(bank).plot(),
        "curve": ColumnCurveDisplay(z, np.outer(np.linspace(1, -1, 12), np.abs(z)), "x", edges, bell).plot(),
        "effect": PartialEffectDisplay(effect, ("x",), x[:, :1]).plot(),
        "pair": PartialEffectDisplay(pair, ("x", "y"), x).plot(),
        "leverage": LeverageDisplay(np.linspace(0.9, 0.1, 50), np.arange(50) % 5 == 0, 25.0).plot(),
        "spectrum": SpectrumDisplay.from_eigenvalues(1 / np.arange(1, 60) ** 2, 0.01),
        "width": WidthDisplay.from_selection(path),
        "calibration": CalibrationDisplay.from_predictions(rng.uniform(size=2000) < p, p),
        "residuals": ResidualDisplay.from_predictions(x[:, 0] + 0.3 * x[:, 1], x[:, 0]),
    }


def render(figure) -> np.ndarray:
    """The picture as (height, width, 3), between 0 and 1."""
    figure.canvas.draw()
    return np.asarray(figure.canvas.buffer_rgba())[..., :3] / 255


def thumbnail(figure, height: int = 24, width: int = 40) -> np.ndarray:
    """The picture without its words, which every font draws otherwise, as means over (height, width) tiles."""
    for ax in figure.axes:
        ax.set(xlabel="", ylabel="", title="", xticks=[], yticks=[])
        ax.xaxis.set_minor_locator(mpl.ticker.NullLocator())
        ax.yaxis.set_minor_locator(mpl.ticker.NullLocator())
        if ax.get_legend():
            ax.get_legend().remove()
        for text in ax.texts:
            text.set_visible(False)
    for words in (figure._supxlabel, figure._supylabel):
        if words is not None:
            words.set_visible(False)
    pixels = render(figure)
    rows, columns = (
        np.linspace(0, size, n + 1).astype(int) for size, n in zip(pixels.shape, (height, width), strict=False)
    )
    tiles = np.add.reduceat(np.add.reduceat(pixels, rows[:-1], axis=0), columns[:-1], axis=1)
    return tiles / np.outer(np.diff(rows), np.diff(columns))[..., None]


PICTURES = (
    "activation",
    "bank",
    "curve",
    "effect",
    "pair",
    "leverage",
    "spectrum",
    "width",
    "calibration",
    "residuals",
)


@pytest.fixture(scope="module")
def drawn():
    figures = {name: display.figure_ for name, display in pictures().items()}
    return {name: (render(figure), thumbnail(figure)) for name, figure in figures.items()}


@pytest.mark.slow
@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_looks_as_it_did(drawn, name):
    """Against a thumbnail in the repository; RFLAF_WRITE_BASELINES=1 writes it anew: look at it before a commit."""
    path, seen = BASELINES / f"{name}.png", drawn[name][1]
    if os.environ.get("RFLAF_WRITE_BASELINES"):
        plt.imsave(path, seen)
    expected = plt.imread(path)[..., :3]
    assert np.sqrt(np.mean((seen - expected) ** 2)) < 0.04
    assert np.abs(seen - expected).max() < 0.5


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_fills_its_frame_with_ink_and_has_white_corners(drawn, name):
    pixels = drawn[name][0]
    inked = np.argwhere(np.any(pixels < 0.9, axis=2))
    reach = np.ptp(inked, axis=0) / pixels.shape[:2]
    assert np.all(reach > 0.85)
    assert np.all(pixels[0, 0] == 1)


def test_pictures_differ_from_one_another(drawn):
    for one, other in combinations(PICTURES, 2):
        assert np.abs(drawn[one][1] - drawn[other][1]).max() > 0.1


def test_the_colours_stay_apart_for_the_colour_blind():
    deuteranope = np.array([[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]])
    protanope = np.array([[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]])
    linear = {
        name: (np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) / 255) ** 2.2 for name, color in PALETTE.items()
    }
    for blindness in (np.eye(3), deuteranope, protanope):
        seen = {name: np.clip(blindness @ color, 0, 1) ** (1 / 2.2) for name, color in linear.items()}
        for one, other in combinations(seen, 2):
            assert np.linalg.norm(seen[one] - seen[other]) > 0.12, (one, other)


@pytest.mark.slow
def test_a_plan_is_drawn_with_the_law_of_its_decay():
    X = np.random.default_rng(0).standard_normal((200, 3))
    plan = rflaf.plan(X, np.sin(X[:, 0]), random_state=0)
    display = SpectrumDisplay.from_plan(plan)
    labels = [text.get_text() for text in display.axes_[0].get_legend().get_texts()]
    assert len(labels) == 2
    assert any(label.startswith((r"$\mu_i", "rank")) for label in labels)
    assert display.lam == plan.lam


def test_words_beside_points_cover_neither_points_nor_words():
    figure, ax = plt.subplots(layout="constrained")
    points = [(1 + 0.03 * i, 1 + 0.02 * i, f"model {i}") for i in range(6)]
    ax.plot([x for x, _, _ in points], [y for _, y, _ in points], "o", ms=4)
    put_labels(ax, points, [{"fontsize": 8}] * len(points))
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in ax.texts]
    spots = ax.transData.transform([(x, y) for x, y, _ in points])
    assert 2 <= len(boxes) <= len(points)
    assert not any(box.count_overlaps([other for other in boxes if other is not box]) for box in boxes)
    assert not any(box.contains(*spot) for box in boxes for spot in spots)
    plt.close(figure)
