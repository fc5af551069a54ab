"""The activation's picture."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from settings import CONVEX, PAPER
from sklearn.exceptions import NotFittedError

from rflaf import RFLAFRegressor
from rflaf.plots import BLUE, ActivationBankDisplay, ActivationDisplay


@pytest.fixture(scope="module")
def fitted():
    X = np.random.default_rng(0).standard_normal((300, 3))
    return RFLAFRegressor(10, random_state=0, **PAPER).fit(X, np.sin(2 * X[:, 0])), X


def test_the_curve_drawn_is_the_learned_activation(fitted):
    model, _ = fitted
    display = ActivationDisplay.from_estimator(model)
    (line,) = display.ax_.get_lines()
    np.testing.assert_array_equal(line.get_ydata(), model.activation_(line.get_xdata()))


def test_rows_add_the_density_of_their_projections(fitted):
    model, X = fitted
    display = ActivationDisplay.from_estimator(model, X)
    assert display.density.size == 60
    np.testing.assert_allclose(np.sum(display.density * np.diff(display.edges)), 1)


def test_it_draws_on_the_axes_given(fitted):
    figure, ax = plt.subplots()
    display = ActivationDisplay.from_estimator(fitted[0], ax=ax)
    assert display.ax_ is ax
    assert display.figure_ is figure


def test_the_picture_has_ink_where_the_curve_runs(fitted):
    display = ActivationDisplay.from_estimator(*fitted)
    display.figure_.canvas.draw()
    pixels = np.asarray(display.figure_.canvas.buffer_rgba())[..., :3].astype(int)
    blue = np.array([int(BLUE[i : i + 2], 16) for i in (1, 3, 5)])
    inked_columns = np.any(np.abs(pixels - blue).sum(axis=2) < 30, axis=0).mean()
    assert inked_columns > 0.5


@pytest.fixture(scope="module", params=[{}, CONVEX], ids=["refined", "convex"])
def bank(request):
    X = np.random.default_rng(0).standard_normal((400, 3))
    return RFLAFRegressor(10, random_state=0, **request.param).fit(X, np.sin(2 * X[:, 0])), X


def test_a_bank_is_ranked_by_the_spread_of_its_contributions(bank):
    model, X = bank
    display = ActivationBankDisplay.from_estimator(model, X, n_shown=10)
    spread = (model.transform(X) * model.coef_).std(axis=0)
    np.testing.assert_array_equal(display.component, np.argsort(-spread))
    np.testing.assert_allclose(display.share.sum(), 1)


def test_a_panel_of_the_bank_is_the_contribution_of_its_component(bank):
    model, X = bank
    display = ActivationBankDisplay.from_estimator(model, X, n_shown=3)
    curve = model.activation_(display.z)[display.component[0]] * model.coef_[display.component[0]]
    np.testing.assert_allclose(display.value[0], curve - curve.mean())
    assert [ax.get_visible() for ax in display.axes_.flat] == [True] * 3


def test_the_display_of_one_activation_refuses_a_bank_and_names_the_other(bank):
    with pytest.raises(ValueError, match="Use ActivationBankDisplay"):
        ActivationDisplay.from_estimator(bank[0])


def test_an_unfitted_estimator_is_refused():
    with pytest.raises(NotFittedError):
        ActivationDisplay.from_estimator(RFLAFRegressor())
