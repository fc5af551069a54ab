"""The picture of an estimator in a notebook."""

import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest
import sklearn
from settings import CONVEX, PAPER
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from rflaf import RandomActivationFeatures, RFLAFClassifier, RFLAFRegressor
from rflaf.estimators.svg import activation_figure, curves_svg, strongest_curves

SVG = "{http://www.w3.org/2000/svg}"
VOID = {"input", "br", "link", "meta", "hr", "img"}


class Balance(HTMLParser):
    """Tags that are open; SVG elements may close themselves."""

    def __init__(self):
        super().__init__()
        self.open = []

    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def data():
    X = np.random.default_rng(0).standard_normal((200, 3))
    return X, np.sin(2 * X[:, 0])


@pytest.fixture(scope="module")
def shared(data):
    return RFLAFRegressor(12, random_state=0, **PAPER).fit(*data)


@pytest.fixture(scope="module")
def bank(data):
    return RFLAFRegressor(12, random_state=0, **CONVEX).fit(*data)


def svg_of(html):
    return ElementTree.fromstring(re.search(r"<svg.*?</svg>", html[html.index("rflaf-activation") :], re.DOTALL)[0])


def lines_of(html):
    lines = svg_of(html).findall(f"{SVG}polyline")
    return [np.array([point.split(",") for point in line.get("points").split()], float) for line in lines]


def test_an_unfitted_estimator_has_the_picture_of_scikit_learn_only():
    html = RFLAFRegressor()._repr_html_()
    assert "RFLAFRegressor" in html
    assert "rflaf-activation" not in html


def test_a_fitted_one_shows_its_activation_in_both_protocols(shared):
    html = shared._repr_mimebundle_()["text/html"]
    assert "sk-top-container" in html
    assert "rflaf-activation" in html
    assert "rflaf-activation" in shared._repr_html_()
    assert "shared by 12 components" in html
    assert "rflaf-activation" not in shared._repr_mimebundle_()["text/plain"]


def test_the_tags_of_the_page_are_closed(shared, bank):
    for estimator in (shared, bank):
        parser = Balance()
        parser.feed(estimator._repr_html_())
        assert parser.open == []


def test_the_line_drawn_is_the_activation_up_to_its_scale(shared):
    (line,) = lines_of(shared._repr_html_())
    z, (values,) = strongest_curves(shared.model_)
    np.testing.assert_array_equal(values, shared.activation_(z))
    assert np.corrcoef(line[:, 0], z)[0, 1] > 1 - 1e-5
    assert np.corrcoef(line[:, 1], values)[0, 1] < -0.999  # heights of a page grow downwards


def test_a_bank_shows_the_components_that_move_f_most(bank):
    z, curves = strongest_curves(bank.model_)
    assert curves.shape == (8, z.size)
    own = (bank.activation_(z) * (bank.importance_ * bank.output_weights_)[:, None]).std(axis=1)
    np.testing.assert_allclose(curves.std(axis=1), np.sort(own)[::-1][:8])
    html = bank._repr_html_()
    assert len(lines_of(html)) == 8
    assert "the strongest 8 of 12" in html


def test_classifiers_and_transformers_have_one_too(data):
    X, y = data
    for estimator, target in ((RFLAFClassifier, np.digitize(y, [-0.5, 0.5])), (RandomActivationFeatures, y)):
        fitted = estimator(5, random_state=0, **CONVEX).fit(X, target)
        assert len(lines_of(fitted._repr_html_())) == 5


def test_every_point_lies_inside_the_picture(shared, bank):
    for estimator in (shared, bank):
        svg = svg_of(activation_figure(estimator.model_))
        size = float(svg.get("width")), float(svg.get("height"))
        for line in lines_of(activation_figure(estimator.model_)):
            assert (line >= 0).all()
            assert (line <= size).all()


def test_a_flat_curve_is_drawn_too():
    svg = ElementTree.fromstring(curves_svg(np.arange(3.0), np.zeros((1, 3)), "flat"))
    assert "nan" not in svg.find(f"{SVG}polyline").get("points")


def test_titles_are_escaped():
    svg = curves_svg(np.arange(2.0), np.ones((1, 2)), "<script>alert(1)</script>")
    assert "<script>" not in svg
    assert ElementTree.fromstring(svg).find(f"{SVG}title").text == "<script>alert(1)</script>"


def test_a_pipeline_and_plain_text_are_left_to_scikit_learn(shared, data):
    pipeline = make_pipeline(StandardScaler(), RFLAFRegressor(5, random_state=0, **PAPER)).fit(*data)
    assert "RFLAFRegressor" in pipeline._repr_html_()
    with sklearn.config_context(display="text"):
        assert not hasattr(shared, "_repr_html_")
        assert set(shared._repr_mimebundle_()) == {"text/plain"}
