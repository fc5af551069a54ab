"""The report: its numbers are those of the model, its text is escaped, and a real browser shows it whole."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from settings import CONVEX, PAPER
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.metrics import log_loss, roc_auc_score, root_mean_squared_error
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import rflaf
from rflaf import GreedySelection, InvalidParameterError, RFLAFClassifier, RFLAFRegressor
from rflaf.estimators.metrics import classification_scores, regression_scores
from rflaf.estimators.svg import Axis, Markup, element, join
from rflaf.functions.densities import AxesFirst, Gaussian
from rflaf.inspection.report import render_report, write_report
from rflaf.inspection.report.checks import as_codes, check_data
from rflaf.inspection.report.component_section import component_names
from rflaf.inspection.report.findings import gather
from rflaf.inspection.report.heat_map import heat_map
from rflaf.inspection.report.labels import Label, placed
from rflaf.inspection.report.quality import Task, Training, compare
from rflaf.inspection.report.scores import verdict
from rflaf.inspection.report.subject import subject_of
from rflaf.inspection.report.uncertainty import interval, paired_ratio, resample

EVIL = '<script>alert("x")</script>'
NAMES = ["left", EVIL, "idle & 'odd'"]
SECTIONS = ("quality", "data", "errors", "columns", "activations", "width", "speed", "model")


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.standard_normal((260, 3)), columns=NAMES)
    return X, np.sin(2 * X["left"]).to_numpy() * X[EVIL].to_numpy() + 0.1 * rng.standard_normal(260)


@pytest.fixture(scope="module")
def plan(table):
    return rflaf.plan(table[0].to_numpy(), table[1], random_state=0)


@pytest.fixture(scope="module")
def regressor(table):
    return RFLAFRegressor(10, random_state=0, curves=True, alpha=1e-4).fit(*table)


@pytest.fixture(scope="module")
def classifier(table):
    labels = np.array(["<b>no</b>", "yes & no", "maybe"])[np.digitize(table[1], [-0.4, 0.4])]
    return RFLAFClassifier(10, random_state=0, **PAPER).fit(table[0], labels), labels


@pytest.fixture(scope="module")
def pages(table, plan, regressor, classifier, tmp_path_factory):
    """One page for each kind of model, as files."""
    folder = tmp_path_factory.mktemp("reports")
    X, y = table
    straight = make_pipeline(StandardScaler(), RFLAFRegressor(8, random_state=0, **PAPER)).fit(X.to_numpy(), y)
    model, labels = classifier
    words = {"title": f"About {EVIL}", "facts": {"by": EVIL}}
    return {
        "bent": write_report(regressor, X, y, folder / "bent.html", plan=plan, train=(X[:200] + 1, y[:200]), **words),
        "classes": write_report(model, X, labels, folder / "classes.html", plan=plan),
        "pipeline": write_report(straight, X.to_numpy(), y, folder / "pipeline.html", plan=plan, feature_names=NAMES),
    }  # fmt: skip


@pytest.fixture(scope="module")
def findings(table, plan, regressor):
    return gather(subject_of(regressor), *table, None, plan, {})


class Outline(HTMLParser):
    """Tags in their order, ids, scripts and everything an element would fetch."""

    VOID = ("meta", "link", "br")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.tags: list[str] = []
        self.open: list[str] = []
        self.fetched: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.tags.append(tag)
        self.ids += [values["id"]] if "id" in values else []
        self.fetched += [values[name] for name in ("src", "href", "xlink:href") if values.get(name, "#")[0] != "#"]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


# The text


@pytest.mark.parametrize("name", ["bent", "classes", "pipeline"])
def test_a_page_is_well_formed_whole_and_fetches_nothing(pages, name):
    outline = Outline(pages[name].read_text())
    assert not outline.open
    assert len(outline.ids) == len(set(outline.ids))
    assert set(SECTIONS) <= set(outline.ids)
    assert outline.fetched == ["data:,"]
    assert outline.tags.count("script") == 1
    assert outline.tags.count("svg") > 8


@pytest.mark.parametrize("name", ["bent", "classes", "pipeline"])
def test_names_of_columns_classes_and_facts_stay_text(pages, name):
    text = pages[name].read_text()
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert" in text
    assert "<b>no" not in text
    assert "idle &amp; 'odd'" in text


def test_whatever_is_not_markup_is_escaped():
    assert element("p", EVIL, title='"<') == (
        '<p title="&quot;&lt;">&lt;script&gt;alert("x")&lt;/script&gt;</p>'
    )  # fmt: skip
    assert join([None, Markup("<b>"), ["<"]]) == "<b>&lt;"


@pytest.mark.slow
def test_the_scores_are_those_of_scikit_learn(findings, table, regressor, classifier):
    X, y = table
    by_name = {score.name: score.value for score in findings.ours.scores}
    assert by_name["root mean square error"] == pytest.approx(root_mean_squared_error(y, regressor.predict(X)))
    assert by_name["variance explained"] == pytest.approx(regressor.score(X, y))
    model, labels = classifier
    probability, code = model.predict_proba(X), np.searchsorted(model.classes_, labels)
    scores = {score.name: score.value for score in classification_scores(code, probability)}
    assert scores["log-loss"] == pytest.approx(log_loss(labels, probability))
    assert scores["accuracy"] == pytest.approx(model.score(X, labels))
    area = roc_auc_score(code, probability, multi_class="ovr")
    assert scores["area under the ROC curve"] == pytest.approx(area)


def test_a_class_that_does_not_occur_leaves_the_roc_curve_out():
    probability = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1]])
    assert [score.name for score in classification_scores(np.array([0, 1]), probability)] == ["log-loss", "accuracy"]


def test_without_the_rows_of_the_fit_no_other_model_is_shown_and_no_lead_stated(findings):
    assert [rival.name for rival in findings.comparison.rivals] == ["the mean"]
    assert not findings.comparison.fair
    assert "the rows this model was fitted on are not known" in findings.comparison.how
    assert "baseline" not in verdict(findings)
    assert "95% interval" in verdict(findings)


def test_other_models_are_fitted_on_the_rows_given_and_scored_on_the_others(table):
    X, y = table[0].to_numpy(), table[1][:, None]
    given = compare(X[100:], y[100:], Training(X[:100], y[:100] + 5), Task(), 5, regression_scores)
    assert given.fair
    assert given.rivals[0].scores[0].value > 4  # fitted on the other rows, whose mean is another
    assert "fitted on the same 100 rows and scored on 160 others" in given.how
    assert all(rival.microseconds > 0 for rival in given.rivals)


@pytest.mark.parametrize(("doubt", "kept"), [("the fingerprint differs", slice(100, None)), (None, slice(100))])
def test_no_lead_is_stated_on_other_rows_or_on_those_of_the_fit(table, doubt, kept):
    X, y = table[0].to_numpy(), table[1][:, None]
    found = compare(X[kept], y[kept], Training(X[:100], y[:100], doubt), Task(), 5, regression_scores)
    assert not found.fair
    assert found.how.endswith(f"{doubt or 'The scored rows are among the rows of the fit'}: no lead is stated.")


def test_a_linear_target_is_won_by_the_linear_model_and_the_verdict_says_so(table, plan):
    X = table[0].to_numpy()
    y = X @ [1.0, 2.0, 3.0]
    model = RFLAFRegressor(3, random_state=0, **PAPER).fit(X, np.sin(9 * X[:, 0]))
    said = verdict(gather(subject_of(model), X[:130], y[:130], (X[130:], y[130:]), plan, {}))
    assert re.search(
        r"higher than the best baseline, linear regression \(\S+\); 95% interval \S+% to \S+% higher", said
    )


def test_the_interval_of_a_mean_has_the_width_that_theory_gives():
    y = np.random.default_rng(1).standard_normal((4000, 1))
    low, high = interval(resample(regression_scores, y, 0 * y, n_draws=1000)[:, 1])
    spread = np.abs(y).std() / np.sqrt(len(y))
    assert (high - low) / spread == pytest.approx(2 * 1.96, rel=0.1)
    assert low < np.abs(y).mean() < high


def test_the_interval_of_a_ratio_is_paired():
    y = np.random.default_rng(1).standard_normal((300, 1))
    ours, theirs = (resample(regression_scores, y, share * y)[:, 0] for share in (0.5, 0.0))
    assert paired_ratio(ours, theirs) == pytest.approx((0.5, 0.5))
    assert paired_ratio(ours, 0 * theirs) is None


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_area_of_a_draw_is_that_of_its_rows(n_classes):
    rng = np.random.default_rng(0)
    code, probability = np.arange(60) % n_classes, np.round(rng.dirichlet(np.ones(n_classes), 60), 1) + 0.1
    probability /= probability.sum(axis=1, keepdims=True)  # with ties
    draws = resample(classification_scores, code, probability, n_draws=5)
    rng = np.random.default_rng(0)
    for draw in draws:
        rows = rng.integers(0, 60, 60)
        slow = [score.value for score in classification_scores(code[rows], probability[rows])]
        np.testing.assert_allclose(draw, slow, rtol=1e-12)


def test_a_map_of_two_categories_names_their_levels():
    value = np.arange(6.0).reshape(2, 3)
    levels = ("monthly", "yearly, paid in advance"), ("yes", "no", "unknown")
    svg = str(heat_map(np.arange(2), np.arange(3), value, about="", labels=("contract", "online"), levels=levels))
    assert all(f">{name}<" in svg for name in ("monthly", "yes", "no", "unknown"))
    assert "contract yearly, paid in advance, online no" in svg


def test_words_beside_dots_cover_neither_one_another_nor_the_dots():
    labels = [Label(100 + 3 * i, 100 + 2 * i, "LightGBM, 100 trees") for i in range(4)]
    starts = placed(labels, Axis(0, 1, 40, 400), 0)
    boxes = []
    for label, at in zip(labels, starts, strict=True):
        length = 7 * len(label.words)
        left = float(at["x"]) - {"start": 0, "middle": length / 2, "end": length}[at["text_anchor"]]
        boxes.append((left, float(at["y"]) - 11, left + length, float(at["y"]) + 2))
        assert left > 38
        assert left + length < 402
    boxes += [(dot.x - 4, dot.y - 4, dot.x + 4, dot.y + 4) for dot in labels]
    for i, one in enumerate(boxes[:4]):
        for other in boxes[:i]:
            assert min(one[2], other[2]) <= max(one[0], other[0]) or min(one[3], other[3]) <= max(one[1], other[1])


def test_components_of_a_single_column_are_called_by_it(table):
    X, y = table[0].to_numpy(), table[1]
    axes = RFLAFRegressor(5, density=AxesFirst(Gaussian()), random_state=0, **CONVEX).fit(X, y)
    names = component_names(subject_of(axes, ["a", "b", "c"]), X)
    assert sorted(names[:3]) == ["a", "b", "c"]
    assert all(name.startswith(("mostly", "component")) for name in names[3:])


@pytest.mark.slow
def test_a_multi_output_regression_and_a_margin_classifier_and_a_bare_model_are_reported(table, plan):
    X = table[0].to_numpy()
    both = np.column_stack([X[:, 0], X[:, 1] ** 2])
    two = RFLAFRegressor(6, random_state=0, **PAPER).fit(X, both)
    assert "first output" in render_report(two, X, both, plan=plan)
    margin = RFLAFClassifier(6, loss="squared_hinge", random_state=0, **PAPER).fit(X, X[:, 0] > 0)
    page = render_report(margin, X, X[:, 0] > 0, plan=plan)
    assert "log-loss" not in page
    assert "decision value" in page
    bare = render_report(two.model_, X, both, plan=plan)
    assert "without the estimator" in bare


@pytest.mark.slow
def test_other_rungs_say_what_they_are(table, plan):
    X, y = table[0].to_numpy(), table[1]
    convex = RFLAFRegressor(6, sampling=GreedySelection(40), random_state=0, **CONVEX).fit(X, y)
    paper = RFLAFRegressor.paper(6, pool_size=60, random_state=0).fit(X, y)
    assert "Convex: 6 components chosen greedily" in render_report(convex, X, y, plan=plan)
    plain = RFLAFRegressor(6, random_state=0, **CONVEX).fit(X, y)
    assert "Random directions, drawn plainly: 6 components" in render_report(plain, X, y, plan=plan)
    n_columns = X.shape[1]
    axes = RFLAFRegressor(n_columns, density=AxesFirst(Gaussian()), random_state=0, **CONVEX).fit(X, y)
    assert f"A sum of functions of single columns: {n_columns} components" in render_report(axes, X, y, plan=plan)
    both = RFLAFRegressor(n_columns + 2, density=AxesFirst(Gaussian()), random_state=0, **CONVEX).fit(X, y)
    assert "Functions of single columns, and random directions" in render_report(both, X, y, plan=plan)
    page = render_report(paper, X, y, plan=plan)
    assert "Algorithm 1" in page
    assert "Gaussian bumps" in page


def test_few_rows_are_reported_without_a_plan(table):
    X, y = table[0].to_numpy()[:15], table[1][:15]
    model = RFLAFRegressor(3, random_state=0, alpha=0.1, **PAPER).fit(X, y)
    page = render_report(model, X, y)
    assert "theory gives no width" in page
    assert "Only 15 rows" in page


@pytest.mark.slow
def test_sparse_rows_two_classes_training_rows_and_a_plan_of_its_own(table):
    X, y = sp.csr_array(table[0].to_numpy()[:120]), table[1][:120] > 0
    model = RFLAFClassifier(4, random_state=0, **PAPER).fit(X, y)
    page = render_report(model, X[60:], y[60:], train=(X[:60], y[:60]))
    assert "fitted on the same 60 rows and scored on 60 others" in page
    assert "area under the ROC curve" in page
    assert "effective dimension" in page


def test_a_pipeline_of_steps_without_names_has_columns_by_number(table, plan):
    X, y = table[0].to_numpy(), table[1]
    steps = make_pipeline(FunctionTransformer(np.tanh), RFLAFRegressor(4, random_state=0, **PAPER)).fit(X, y)
    assert subject_of(steps).names == ("column 0", "column 1", "column 2")
    assert '<span class="name" title="column 0">' in render_report(steps, X, y, plan=plan)


@pytest.mark.slow
def test_a_single_class_is_fitted_and_trees_are_left_out_where_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    X, code = np.arange(20.0)[:, None], np.eye(20, dtype=int)[7]
    rivals = compare(X, code, Training(X[:7], code[:7]), Task(2), 3, classification_scores).rivals
    assert [rival.name for rival in rivals] == [
        "class frequencies", "logistic regression", "random Fourier features, 3",
    ]  # fmt: skip
    assert all(np.isfinite(rival.scores[0].value) for rival in rivals)


def test_a_constant_model_is_reported(table, plan):
    X = table[0].to_numpy()
    model = RFLAFRegressor(4, random_state=0, **PAPER).fit(X, np.ones(260))
    assert "No column changes the prediction" in render_report(model, X, np.ones(260), plan=plan)


def test_an_encoded_table_is_reported_by_its_own_columns(plan):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"pet": rng.choice(["cat", "dog", "emu"], 200), "age": rng.uniform(0, 9, 200), "always": 1})
    frame["y"] = y = (frame["pet"] == "emu") * 5.0 + frame["age"]
    frame.loc[0, "pet"] = "?"
    estimator = RFLAFRegressor(20, random_state=0, **PAPER).fit(frame.drop(columns="y"), y.rename("y <- x"))
    page = render_report(estimator, frame, y, plan=plan)
    assert "<h1>A model of y &lt;- x</h1>" in page
    assert "'always' is left out" in page
    assert "1 column has missing values" in page
    assert "alone predicts" not in page  # the target among the columns of the table is not one the model sees
    assert re.search(r'<span class="name" title="pet">pet</span>', page)
    levels = re.search(r'aria-label="Mean prediction at every level of pet">(.*?)</ol>', page)
    assert re.findall(r'title="(\w+)"', levels[1])[0] == "emu"
    subject = replace(subject_of(estimator), origin=("pet", "pet", "pet", "age"))
    assert subject.by_origin(np.array([3.0, 4.0, 0.0, 1.0])) == [("pet", 5.0), ("age", 1.0)]


# What is odd about the data


def odd(columns, y, classification=False):
    return {
        name: oddity for oddity in check_data(columns, y, classification) for name in oddity.columns or (oddity.title,)
    }


def test_columns_that_say_nothing_the_same_or_too_much_are_found():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 300))
    gaps = np.where(rng.uniform(size=300) < 0.6, np.nan, x)
    found = odd(
        {"x": x, "again": x.copy(), "same": np.ones(300), "leak": np.exp(y), "none": np.full(300, np.nan),
         "gaps": gaps, "id": np.arange(300.0), "noise": rng.standard_normal(300)}, y
    )  # fmt: skip
    assert "identical" in found["again"].title
    assert "constant" in found["same"].title
    assert ("alone predicts" in found["leak"].title, found["leak"].level) == (True, "serious")
    assert "without any value" in found["none"].title
    assert ("missing values" in found["gaps"].title, found["gaps"].level) == (True, "serious")
    assert "numbers the rows" in found["id"].title
    assert "noise" not in found


def test_a_clean_table_has_nothing_odd():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((400, 3)), rng.standard_normal(400)
    assert check_data({str(i): x for i, x in enumerate(X.T)}, y, False) == []


def test_texts_leak_classes_too_and_rare_classes_and_repeated_rows_are_named():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], [490, 10])
    columns = {"verdict": np.where(y == 1, "guilty", "free").astype(object), "noise": rng.integers(0, 3, 500) * 1.0}
    found = check_data(columns, y, True)
    titles = " ".join(oddity.title for oddity in found)
    assert "'verdict' alone predicts the target" in titles
    assert "rare: 10 rows" in titles
    assert "rows repeat another" in titles


def test_codes_of_texts_dates_and_gaps():
    np.testing.assert_array_equal(as_codes(np.array(["b", "", None, "a"], object)), [1, np.nan, np.nan, 0])
    np.testing.assert_array_equal(as_codes(np.array(["2", "10"])), [2, 10])
    np.testing.assert_array_equal(as_codes(np.array([True, False])), [1, 0])
    dates = as_codes(np.array(["2024-01-02", "NaT", "2024-01-01"], "M8[D]"))
    assert dates[0] - dates[2] == 1
    assert np.isnan(dates[1])


# Bad input


def test_a_report_that_cannot_be_written_leaves_nothing_behind(regressor, table, tmp_path, plan):
    with pytest.raises(InvalidParameterError, match="a folder that exists"):
        write_report(regressor, *table, tmp_path / "none" / "page.html")
    (tmp_path / "page.html").mkdir()
    with pytest.raises(InvalidParameterError, match="the output must be a file"):
        write_report(regressor, *table, tmp_path / "page.html", plan=plan)
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_a_failed_report_keeps_the_page_that_was_there(regressor, table, tmp_path):
    path = tmp_path / "page.html"
    path.write_text("before")
    with pytest.raises(InvalidParameterError):
        write_report(regressor, table[0], table[1][:-1], path)
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("X", "y", "rule"),
    [
        (np.zeros((5, 2)), np.zeros(5), "of 3 columns"),
        (np.full((5, 3), np.nan), np.zeros(5), "finite"),
        (np.zeros((5, 3)), np.zeros(4), "a value for each"),
        (np.zeros((1, 3)), np.zeros(1), "at least two rows"),
        (np.zeros((5, 3)), np.full(5, np.nan), "finite numbers per row"),
        (np.zeros((5, 3)), np.zeros((5, 2)), "1 finite numbers per row"),
        (np.zeros((5, 3)), np.array(["a"] * 5), "y must be numbers"),
    ],
)
def test_rows_that_do_not_fit_the_model_are_refused(regressor, X, y, rule):
    with pytest.raises(InvalidParameterError, match=rule):
        render_report(regressor, X, y)


def test_labels_the_model_does_not_know_are_refused(classifier, table):
    model, labels = classifier
    with pytest.raises(InvalidParameterError, match="among the model's classes"):
        render_report(model, table[0], np.where(labels == "maybe", "never", labels))


def test_other_models_and_wrong_numbers_of_names_are_refused(regressor, table):
    with pytest.raises(InvalidParameterError, match="RFLAFRegressor"):
        render_report(Ridge().fit(table[0], table[1]), *table)
    with pytest.raises(NotFittedError):
        render_report(RFLAFRegressor(), *table)
    with pytest.raises(InvalidParameterError, match="3 names"):
        render_report(regressor, *table, feature_names=["a"])


# In a browser


@pytest.fixture
def visit(browser, pages):
    """Open a page; what the console says and what the page asks the network for is kept."""
    opened = []

    def open_page(name, width=1280, scheme="light"):
        page = browser.new_page(viewport={"width": width, "height": 850}, color_scheme=scheme)
        page.said, page.asked = [], []
        page.on("console", lambda message: page.said.append(message.text))
        page.on("pageerror", lambda error: page.said.append(str(error)))
        page.on("request", lambda request: page.asked.append(request.url))
        page.goto(pages[name].as_uri())
        opened.append(page)
        return page

    yield open_page
    for page in opened:
        page.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bent", "classes", "pipeline"])
@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light")])
def test_a_page_shows_its_charts_without_error_network_or_sideways_scroll(visit, pages, name, width, scheme):
    page = visit(name, width, scheme)
    assert page.said == []
    assert page.asked == [pages[name].as_uri()]
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    drawn = page.evaluate(
        "[...document.querySelectorAll('svg.chart')].map(svg => {const b = svg.getBoundingClientRect();"
        " return [b.width, b.height, svg.querySelectorAll('path, circle, rect').length]})"
    )
    assert len(drawn) > 8
    assert all(box[0] > 100 and box[1] > 60 and box[2] > 0 for box in drawn)
    outside = page.evaluate(
        "[...document.querySelectorAll('main *')].filter(e => !e.closest('.scroll') && e.getClientRects().length"
        " && e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 80))"
    )
    assert outside == []


def background(page):
    return page.evaluate("getComputedStyle(document.body).backgroundColor")


@pytest.mark.slow
def test_light_and_dark_follow_the_system_and_the_button(visit):
    light, dark = visit("bent", scheme="light"), visit("bent", scheme="dark")
    colours = background(light), background(dark)
    assert colours[0] != colours[1]
    light.click("#theme")
    assert background(light) == colours[1]
    light.click("#theme")
    assert background(light) == colours[0]


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_stand_out_from_the_paper(visit, scheme):
    """Contrast of at least 4.5 to one, of text in every role, also in charts."""
    page = visit("bent", scheme=scheme)
    pairs = page.evaluate(
        "['h1', '.lead', '.origin', '.note', 'nav a', 'td', 'th', '.bars .name', '.legend li', 'dt', 'button']"
        ".map(s => {const e = document.querySelector(s); let b = e;"
        " while (getComputedStyle(b).backgroundColor.endsWith(', 0)'))"
        " b = b.parentElement; return [s, getComputedStyle(e).color, getComputedStyle(b).backgroundColor]})"
    ) + page.evaluate(
        "['.chart .ticks text', '.chart .words'].map(s => [s, getComputedStyle(document.querySelector(s)).fill,"
        " getComputedStyle(document.querySelector('.card')).backgroundColor])"
    )
    for where, ink, paper in pairs:
        assert contrast(ink, paper) > 4.5, (where, ink, paper)


def contrast(ink: str, paper: str) -> float:
    def luminance(colour: str) -> float:
        numbers = np.array([float(part) for part in re.findall(r"[\d.]+", colour)[:3]])
        share = numbers if colour.startswith("color(") else numbers / 255
        linear = np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    low, high = sorted((luminance(ink), luminance(paper)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.slow
def test_the_pointer_reads_values_off_a_chart(visit):
    page = visit("bent")
    page.emulate_media(reduced_motion="reduce")  # scrolling that goes on would hide the values again
    chart = page.locator("#columns svg.chart").nth(1)
    chart.scroll_into_view_if_needed()
    page.wait_for_timeout(300)  # a scroll event that is still to come would hide the values again
    box = chart.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + box["height"] * 0.4)
    tip = page.locator("#tip")
    assert tip.is_visible()
    assert re.search(r"left -?[\d.]+\nprediction: -?[\d.]+", tip.inner_text())
    page.mouse.move(2, 2)
    assert tip.is_hidden()


@pytest.mark.slow
def test_everything_is_reached_and_read_by_keyboard(visit):
    page = visit("bent")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('main') !== null")
    page.evaluate(
        "reached = new Set(); addEventListener('focusin', e => reached.add(e.target.closest('section[id]')?.id))"
    )
    for _ in range(60):
        page.keyboard.press("Tab")
    assert {"quality", "errors", "columns", "activations", "width", "model"} <= set(page.evaluate("[...reached]"))
    page.locator("#errors svg.chart").nth(0).focus()
    page.keyboard.press("ArrowRight")
    first = page.locator("#said").inner_text()
    page.keyboard.press("ArrowRight")
    assert "share of rows" in first
    assert page.locator("#said").inner_text() != first
    page.keyboard.press("Escape")
    assert page.locator("#tip").is_hidden()


def test_every_chart_and_control_has_a_name(visit):
    page = visit("classes")
    nameless = page.evaluate(
        "[...document.querySelectorAll('svg[role=img], button, [role=region], [role=group], nav')]"
        ".filter(e => !(e.getAttribute('aria-label') || e.textContent.trim())).length"
    )
    assert nameless == 0
    assert page.evaluate("[...document.querySelectorAll('h1')].length") == 1


@pytest.mark.slow
def test_the_switches_of_the_activations_switch(visit):
    page = visit("bent", 1280)
    line = page.locator("[data-own]:not([data-own='1'])").last  # of the largest both scales are the same
    before = line.bounding_box()["height"]
    page.get_by_role("button", name="Each on its own scale").press("Enter")
    page.wait_for_function("() => document.getAnimations().every(a => a.playState === 'finished')")
    assert line.bounding_box()["height"] > before
    under = page.locator("[data-bank] .under").first
    assert under.is_visible()
    page.get_by_role("button", name="Distribution of the rows").click()
    assert under.is_hidden()
    assert page.said == []


@pytest.mark.slow
def test_the_page_prints_without_its_controls(visit):
    page = visit("bent", scheme="dark")
    page.emulate_media(media="print")
    assert page.locator("nav").is_hidden()
    assert page.locator("#theme").is_hidden()
    assert contrast(background(page), "rgb(255, 255, 255)") == pytest.approx(1)
    assert len(page.pdf(format="A4")) > 20_000
