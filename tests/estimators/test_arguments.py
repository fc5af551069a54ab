"""Arguments: few, refused where they have no effect, and under their former names for one release."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from settings import CONVEX, PAPER
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from rflaf import (
    BSplineBasis,
    GreedySelection,
    InvalidParameterError,
    LeverageSampling,
    RandomActivationFeatures,
    RBFBasis,
    RFLAFClassifier,
    RFLAFRegressor,
    plan,
)
from rflaf.estimators.retired import RETIRED, translate
from rflaf.functions.densities import StudentT
from rflaf.functions.losses import Huber, Squared

ESTIMATORS = (RFLAFRegressor, RFLAFClassifier, RandomActivationFeatures)
X = np.random.default_rng(0).standard_normal((90, 3))
Y = np.abs(X[:, 0]) + X[:, 1]
RANDOM = {"directions": "random"}
each_estimator = pytest.mark.parametrize("estimator_class", ESTIMATORS)


@each_estimator
def test_there_are_at_most_twenty_two_arguments(estimator_class):
    """The twentieth is ``categorical_features``, for numbers that are codes.

    200 codes of a value each, 10,000 rows, S=30: 1 - r2 is .51 and .57 as numbers, .031 and .029 as codes.
    40 codes, 3,000 rows: .027 either way, but .75 against .037 for random directions.
    The last two, ``monotone`` and ``interactions``, say what is known beforehand and no data can show.
    """
    assert len(estimator_class().get_params()) <= 22


# Arguments without effect

IDLE = {
    "curves": ({**RANDOM, "curves": True}, "random directions have no column curves", "Set directions='refined'"),
    "width": ({"width_tolerance": 0.1}, "it acts under n_components='auto' only", "Set n_components='auto'"),
    "sampling": ({"sampling": "greedy"}, "sampling must be 'plain'", "Set directions='random' for sampling='greedy'."),
    "sampling object": (
        {"sampling": GreedySelection(500)},
        "sampling must be 'plain'",
        "Set directions='random' for sampling=GreedySelection(pool_size=500).",
    ),
    "tails, refined": ({"density": "cauchy"}, "not under bandwidth='auto' unless", "Set bandwidth=1.0"),
    "tails": ({**CONVEX, "density": StudentT(3.0)}, "the tails of a density act where", "leave density out."),
    "pool": (
        {**CONVEX, "sampling": GreedySelection(2)},
        "pool_size must be at least n_components = 3 to draw from",
        "Raise pool_size",
    ),
}


@each_estimator
@pytest.mark.parametrize("name", IDLE)
def test_an_argument_without_effect_is_refused_with_rule_value_and_remedy(estimator_class, name):
    arguments, rule, remedy = IDLE[name]
    model = estimator_class(3, **arguments)
    with pytest.raises(InvalidParameterError) as caught:
        model.fit(X, Y > 0 if estimator_class is RFLAFClassifier else Y)
    assert rule in caught.value.rule
    assert caught.value.value in arguments.values()
    assert remedy in caught.value.remedy


@pytest.mark.parametrize("loss", ["squared", "huber", Squared()])
def test_a_quantile_is_refused_unless_it_is_what_is_predicted(loss):
    with pytest.raises(InvalidParameterError, match=r"quantile acts under loss='quantile' only; got 0\.9\. Set loss="):
        RFLAFRegressor(3, loss=loss, quantile=0.9).fit(X, Y)


@pytest.mark.parametrize(
    "arguments",
    [
        {**RANDOM, "curves": False},
        {**CONVEX, "density": "orthogonal"},
        {**CONVEX, "density": "student_t", "bandwidth": 1.0},
        {**PAPER, "density": "cauchy"},
        {**CONVEX, "loss": "quantile", "quantile": 0.9},
    ],
)
def test_arguments_with_an_effect_are_taken(arguments):
    assert hasattr(RFLAFRegressor(3, random_state=0, **arguments).fit(X, Y), "model_")


@each_estimator
@pytest.mark.parametrize(
    ("model", "given", "fixed"),
    [
        ("paper", {"directions": "refined"}, "paper() fixes directions='random'; got 'refined'. Leave directions out"),
        ("paper", {"activation": "per_component"}, "paper() fixes activation=SharedActivation(search='exact', "),
        ("paper", {"sampling": "plain"}, "paper() fixes sampling=LeverageSampling(pool_size=5000, alpha='auto', rows="),
        ("paper", {"basis": BSplineBasis(5), "n_basis": 6}, "a basis object has its own n_basis; got 6."),
        ("convex", {"directions": "refined"}, "convex() fixes directions='random'; got 'refined'."),
        ("convex", {"sampling": "plain"}, "convex() fixes sampling='greedy'; got 'plain'."),
    ],
)
def test_a_named_model_refuses_what_contradicts_it(estimator_class, model, given, fixed):
    with pytest.raises(InvalidParameterError) as caught:
        getattr(estimator_class, model)(**given)
    assert str(caught.value).startswith(fixed)


def test_a_named_model_takes_its_own_settings_and_all_others():
    paper = RFLAFRegressor.paper(7, pool_size=90, leverage_alpha=0.1, leverage_rows=50, n_basis=9, directions="random")
    assert (paper.sampling, paper.basis) == (LeverageSampling(90, 0.1, 50), RBFBasis(9))
    assert RFLAFRegressor.paper(basis="bspline", n_basis=9).basis == BSplineBasis(9)
    convex = RFLAFRegressor.convex(7, pool_size=90, activation="shared")
    assert (convex.sampling, convex.activation, convex.n_components) == (GreedySelection(90), "shared", 7)


# Sampling as an object


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LeverageSampling(0), "pool_size must be 'auto' or a whole number, at least 1; got 0. Use 'auto'."),
        (lambda: LeverageSampling(pool_size=2.5), "pool_size must be 'auto' or a whole number, at least 1; got 2.5."),
        (
            lambda: LeverageSampling(alpha=0),
            "alpha must be 'auto', 'fit' or a number above zero; got 0. 'auto' is 1 / sqrt",
        ),
        (lambda: LeverageSampling(alpha="big"), "alpha must be 'auto', 'fit' or a number above zero; got 'big'."),
        (lambda: LeverageSampling(rows="auto"), "rows must be 'all' or a whole number, at least 1; got 'auto'."),
        (lambda: GreedySelection(None), "pool_size must be 'auto' or a whole number, at least 1; got None."),
    ],
)
def test_a_sampling_checks_its_values(make, message):
    with pytest.raises(InvalidParameterError) as caught:
        make()
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("sampling", [LeverageSampling(40), GreedySelection(40)])
def test_a_sampling_is_cloned_pickled_shown_and_searched_over(sampling):
    model = RFLAFRegressor(3, random_state=0, alpha=1e-3, sampling=sampling, **PAPER)
    assert clone(model).get_params() == model.get_params()
    assert pickle.loads(pickle.dumps(model)).sampling == sampling
    assert repr(sampling).split("(")[0] in repr(model)
    search = GridSearchCV(model, {"sampling": ["plain", sampling]}, cv=2).fit(X, Y)
    assert search.best_params_["sampling"] in ("plain", sampling)


@pytest.mark.parametrize(("name", "same"), [("leverage", LeverageSampling()), ("greedy", GreedySelection())])
def test_a_name_stands_for_the_defaults(name, same, small_pool):
    one, other = (RFLAFRegressor(3, random_state=0, sampling=s, **PAPER).fit(X, Y) for s in (name, same))
    assert_array_equal(one.predict(X), other.predict(X))


# Former names

RENAMED = {
    "tolerance": ({"tolerance": 0.1}, {"width_tolerance": 0.1}),
    "leverage": (
        {"sampling": "leverage", "pool_size": 50, "leverage_alpha": 0.1, "leverage_rows": 40},
        {"sampling": LeverageSampling(50, 0.1, 40)},
    ),
    "greedy": ({"sampling": "greedy", "pool_size": 50, "leverage_rows": 4}, {"sampling": GreedySelection(50)}),
    "plain": ({"pool_size": 50}, {}),
    "n_basis": ({"n_basis": 9}, {"basis": BSplineBasis(9)}),
    "rbf": ({"n_basis": 9, "basis": "rbf"}, {"basis": RBFBasis(9)}),
    "object": ({"n_basis": 9, "basis": RBFBasis(5)}, {"basis": RBFBasis(5)}),
    "keep": ({"outliers": "keep"}, {"loss": Squared()}),
    "auto": ({"outliers": "auto", "loss": Squared()}, {"loss": "squared"}),
    "another loss": ({"outliers": "keep", "loss": Huber(1.0)}, {"loss": Huber(1.0)}),
    "defaults": ({name: default for name, (default, _) in RETIRED.items()}, {}),
}


@pytest.mark.parametrize("name", RENAMED)
def test_a_former_name_warns_and_is_translated(name):
    old, new = RENAMED[name]
    with pytest.warns(FutureWarning) as caught:
        model = RFLAFRegressor(3, random_state=0, **old)
    said = " ".join(str(warning.message) for warning in caught)
    assert all(f"{one} is going away. {RETIRED[one][1]}" in said for one in old if one in RETIRED)
    assert model.get_params() == RFLAFRegressor(3, random_state=0, **new).get_params()
    assert all(warning.filename == __file__ for warning in caught)


@pytest.mark.filterwarnings("ignore:.*is going away:FutureWarning")
def test_limits_of_the_search_still_act_and_are_carried_by_copies(tmp_path):
    pytest.importorskip("safetensors")
    from rflaf import load, save

    usual = RFLAFRegressor(5, random_state=0, **PAPER).fit(X, Y)
    short = RFLAFRegressor(5, random_state=0, tol=0.5, **PAPER)
    for copy in (short, clone(short), pickle.loads(pickle.dumps(short))):
        assert copy.fit(X, Y).n_iter_ < usual.n_iter_
    save(short, tmp_path / "short.rflaf")
    assert load(tmp_path / "short.rflaf").fit(X, Y).n_iter_ < usual.n_iter_
    with pytest.raises(InvalidParameterError, match="max_iter must be a whole number, at least 1; got 0"):
        RFLAFRegressor(5, max_iter=0).fit(X, Y)


@pytest.mark.filterwarnings("ignore:.*is going away:FutureWarning")
def test_a_half_life_of_the_constructor_still_acts():
    with_old, with_new = (
        RFLAFRegressor(5, random_state=0, half_life=20, **PAPER),
        RFLAFRegressor(5, random_state=0, **PAPER),
    )
    for part in (slice(0, 60), slice(60, 90)):
        with_old.partial_fit(X[part], Y[part])
        with_new.partial_fit(X[part], Y[part], half_life=20)
    assert_array_equal(with_old.predict(X), with_new.predict(X))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*is going away:FutureWarning")
def test_a_transformer_still_keeps_outliers():
    wild = np.where(np.arange(90) == 7, 1e4, Y)
    keeps = RandomActivationFeatures(5, random_state=0, outliers="keep", curves=False, alpha=1e-3).fit(X, wild)
    same = RFLAFRegressor(5, random_state=0, loss=Squared(), curves=False, alpha=1e-3).fit(X, wild)
    assert_array_equal(keeps.transform(X), same.transform(X))


def test_a_classifier_never_had_outliers():
    with pytest.raises(TypeError, match="outliers"):
        RFLAFClassifier(outliers="keep")


@each_estimator
@pytest.mark.parametrize("name", RETIRED)
def test_a_former_name_is_refused_with_its_remedy_once_the_model_is_made(estimator_class, name):
    with pytest.raises(InvalidParameterError) as caught:
        estimator_class().set_params(**{name: 7})
    assert str(caught.value) == f"{name} is no argument any more; got 7. {RETIRED[name][1]}"


def test_the_half_life_is_no_metadata():
    for estimator_class in (RFLAFRegressor, RFLAFClassifier):
        assert "half_life" not in estimator_class().get_metadata_routing().partial_fit.requests


def test_a_plan_knows_the_former_name_of_its_tolerance():
    with pytest.warns(FutureWarning, match=r"tolerance is going away\. Write width_tolerance\."):
        answer = plan(X, Y, tolerance=0.2, random_state=0)
    with pytest.warns(FutureWarning, match="tolerance is going away"):
        assert answer.tolerance == answer.width_tolerance == 0.2


@each_estimator
def test_a_number_of_shapes_warns_and_acts_as_one_activation_per_component(estimator_class):
    says = 'mixtures of K shapes, is gone and acts as "per_component"'
    with pytest.warns(FutureWarning, match=says):
        made = estimator_class(3, activation=np.int64(4), **RANDOM)
    with pytest.warns(FutureWarning, match=says):
        changed = estimator_class(3, activation="shared", **RANDOM).set_params(activation=4)
    assert made.get_params() == clone(changed).get_params() == estimator_class(3, **RANDOM).get_params()
    assert translate({"activation": 4}, has_loss=True) == ({"activation": "per_component"}, {})
