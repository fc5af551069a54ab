"""What is refused, in which words, and that a refusal leaves an estimator as it was: unfitted, or fitted as before."""

from __future__ import annotations

import pickle
import re

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal
from settings import PAPER
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from rflaf import (
    BSplineBasis,
    InvalidParameterError,
    LeverageSampling,
    MemoryBudgetError,
    RandomActivationFeatures,
    RBFBasis,
    RFLAFRegressor,
)
from rflaf.functions.densities import Gaussian
from rflaf.training.specification import LEAST_REFINED_ROWS

pytestmark = pytest.mark.usefixtures("small_pool")
ROWS = np.random.default_rng(0).standard_normal((30, 3))
TARGET = ROWS[:, 0] + np.abs(ROWS[:, 1])
DAYS = pd.date_range("2024-01-01", periods=30)
ESTIMATORS = (RFLAFRegressor, RandomActivationFeatures)

each_estimator = pytest.mark.parametrize("estimator_class", ESTIMATORS)


@pytest.fixture(scope="module", params=[{}, PAPER], ids=["refined", "plain"])
def stored(request, small_pool):
    """A fitted estimator of each class, pickled; and the arguments it was made with."""
    many = LEAST_REFINED_ROWS // len(TARGET) + 1
    rows, target = np.tile(ROWS, (many, 1)), np.tile(TARGET, many)
    made_with = {"basis": BSplineBasis(8), "random_state": 0, **request.param}
    return {cls: pickle.dumps(cls(5, **made_with).fit(rows, target)) for cls in ESTIMATORS} | {"made_with": made_with}


def answer(estimator):
    return estimator.predict(ROWS) if hasattr(estimator, "predict") else estimator.transform(ROWS)


def refusal(stored, estimator_class, kind=ValueError, X=ROWS, y=TARGET, sample_weight=None, **parameters):
    """The error of a fit, after checking that neither a new nor a fitted estimator is changed by it."""
    fresh = estimator_class(5, **stored["made_with"]).set_params(**parameters)
    with pytest.raises(kind) as caught:
        fresh.fit(X, y, sample_weight=sample_weight)
    with pytest.raises(NotFittedError):
        check_is_fitted(fresh)
    assert not [name for name in vars(fresh) if name.endswith("_")]

    fitted = pickle.loads(stored[estimator_class])
    before = answer(fitted)
    with pytest.raises(kind):
        fitted.set_params(**parameters).fit(X, y, sample_weight=sample_weight)
    assert_array_equal(answer(fitted), before)
    assert vars(fitted).keys() == vars(pickle.loads(stored[estimator_class])).keys()
    return caught.value


def replaced(values, index, value):
    copy = np.array(values, dtype=object if isinstance(value, str) else None)
    copy[index] = value
    return copy


# Arguments


@pytest.mark.parametrize(
    ("argument", "values", "rule"),
    [
        ("n_components", [0, -1, 2.5, True, "ten", None, np.nan], "must be 'auto' or a whole number, at least 1"),
        ("width_tolerance", [-0.1, np.nan, "some", None], "must be a number, at least zero"),
        ("directions", ["straight", None, ["random"]], "must be 'refined' or 'random'"),
        ("curves", ["bent", None, 1, 2, [True]], "must be 'auto', True or False"),
        ("sampling", ["fancy", None], "must be 'plain', 'leverage', 'greedy', a LeverageSampling or a GreedySelection"),
        (
            "activation",
            ["relu", None, 0, -1, 2.5, 2.0, True],
            "must be 'per_component', 'shared' or a SharedActivation",
        ),
        ("basis", ["fourier", 3, None], "must be 'bspline'"),
        ("density", ["uniform", 3, None, Gaussian], "must be one of 'gaussian'"),
        ("bandwidth", [0, -1.0, np.nan, np.inf, "wide", None], "must be 'auto' or a number above zero"),
        (
            "alpha",
            [-1e-3, np.nan, np.inf, "big", None, True, 10**400, (1, 2)],
            "must be 'auto' or a number, at least zero",
        ),
        ("fit_intercept", ["no", None, 2], "must be True or False"),
        ("n_jobs", [0, 2.5, "all", True], "must be None or a whole number but zero"),
        ("verbose", ["yes", None, 0.5], "must be True or False"),
        ("memory", [0, -1, 1e9, "1GB", None], "must be 'auto' or a number of bytes"),
    ],
)
@each_estimator
def test_an_argument_out_of_its_range_is_refused_with_rule_value_and_remedy(
    argument, values, rule, estimator_class, stored
):
    for value in values:
        error = refusal(stored, estimator_class, InvalidParameterError, **{argument: value})
        assert f"{argument} {rule}" in str(error)
        assert f"; got {value!r}. " in str(error)
        assert str(error).endswith(error.remedy)
        assert len(error.remedy) > 5
        assert error.value is value


@each_estimator
@pytest.mark.parametrize("argument", ["alpha", "sampling", "n_components", "memory"])
def test_an_array_for_an_argument_is_refused_with_its_rule(argument, estimator_class, stored):
    error = refusal(stored, estimator_class, InvalidParameterError, **{argument: np.array([1, 2])})
    assert str(error).startswith(f"{argument} must be")


def test_a_grid_of_gaussians_needs_two():
    with pytest.raises(InvalidParameterError) as caught:
        RBFBasis(1)
    assert (
        str(caught.value)
        == "n_basis must be a whole number, at least 2 for a grid of Gaussians; got 1. The default is 16."
    )


@each_estimator
def test_a_pool_narrower_than_the_width_is_refused(estimator_class, stored):
    error = refusal(stored, estimator_class, InvalidParameterError, **PAPER, sampling=LeverageSampling(4))
    assert "pool_size must be at least n_components = 5" in str(error)
    assert "got LeverageSampling(pool_size=4, alpha='auto', rows='all', " in str(error)


@each_estimator
@pytest.mark.parametrize("sampling", ["leverage", "greedy"])
def test_refined_directions_refuse_any_sampling_but_plain(estimator_class, sampling, stored):
    error = refusal(stored, estimator_class, InvalidParameterError, directions="refined", sampling=sampling)
    assert "directions='refined' starts from a plain draw: sampling must be 'plain'" in str(error)
    assert f"got {sampling!r}. Set directions='random'" in str(error)


@pytest.mark.slow
@each_estimator
@pytest.mark.parametrize(
    "sampling",
    [{}, PAPER, {**PAPER, "sampling": LeverageSampling(20)}],
    ids=["as it is", "plain", "leverage"],
)
def test_too_little_memory_is_refused_naming_the_least_that_will_do(estimator_class, sampling, stored):
    error = refusal(stored, estimator_class, MemoryBudgetError, memory=1, **sampling)
    assert "memory must hold" in str(error)
    assert "got 1." in str(error)
    least = int(re.search(r"Allow at least (\d+) bytes", error.remedy).group(1))
    refusal(stored, estimator_class, MemoryBudgetError, memory=least - 1, **sampling)
    check_is_fitted(estimator_class(5, memory=least, **{**stored["made_with"], **sampling}).fit(ROWS, TARGET))


@each_estimator
@pytest.mark.parametrize("seed", ["abc", -1, 2.5])
def test_a_seed_that_is_none_is_refused(estimator_class, seed, stored):
    assert "seed" in str(refusal(stored, estimator_class, random_state=seed)).lower()


def test_an_error_of_this_package_survives_being_sent_to_another_process():
    error = InvalidParameterError("alpha must be at least zero", -1.0, "Pass alpha='auto'.")
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.rule, copy.value, copy.remedy) == (str(error), error.rule, error.value, error.remedy)


class Interrupting:
    """A density during whose sampling the user loses patience."""

    name = "interrupting"

    def sample(self, n_features, n_components, rng):
        raise KeyboardInterrupt

    def log_density(self, W):
        return np.zeros(np.shape(W)[1])


@each_estimator
def test_an_interrupted_fit_leaves_the_estimator_as_it_was(estimator_class, stored):
    refusal(stored, estimator_class, KeyboardInterrupt, density=Interrupting())


# Rows and targets


@pytest.mark.parametrize(
    ("X", "fragments"),
    [
        (ROWS[:, 0], ["Expected 2D array, got 1D array", "Reshape your data"]),
        (ROWS[None], ["dim 3", "dim <= 2 is required"]),
        (ROWS[:-1], ["inconsistent numbers of samples", "[29, 30]"]),
        (ROWS[:0], ["0 sample(s)", "(0, 3)", "minimum of 2 is required"]),
        (ROWS[:, :0], ["0 feature(s)", "(30, 0)", "minimum of 1 is required"]),
        (replaced(ROWS, (3, 1), np.inf), ["Input X contains infinity"]),
        (replaced(ROWS, (3, 1), -np.inf), ["Input X contains infinity"]),
        (sp.csr_array(replaced(ROWS, (3, 1), np.nan)), ["Input X contains NaN"]),
        (
            pd.DataFrame(ROWS).assign(colour=[1, [2]] * 15).rename(columns=str),
            ["column 'colour' must hold numbers, texts, truth values or dates"],
        ),
        (ROWS + 1j, ["Complex data not supported"]),
        (ROWS * 1e200, ["the variance of every column", "must be a finite number", "overflow", "Divide columns"]),
        (None, ["Expected 2D array"]),
    ],
    ids=[
        "one dimension", "three dimensions", "a row short", "no rows", "no columns", "inf", "-inf", "sparse NaN",
        "a column of numbers and lists", "complex", "overflow", "nothing",
    ],
)  # fmt: skip
@each_estimator
def test_rows_that_cannot_be_used_are_refused(X, fragments, estimator_class, stored):
    message = str(refusal(stored, estimator_class, X=X))
    for fragment in fragments:
        assert fragment in message


@pytest.mark.parametrize("texts", [False, True])
def test_one_column_one_row_and_dictionaries_are_no_tables(texts):
    frame = pd.DataFrame(ROWS, columns=list("abc"))
    frame = frame.assign(town=np.resize(["Ulm", "Bonn"], 30)) if texts else frame
    model = RFLAFRegressor(2, directions="random", random_state=0).fit(frame, TARGET)
    for X in (frame.iloc[0], frame["a"]):
        for ask in (model.predict, model.explain, lambda X: RFLAFRegressor().fit(X, TARGET)):
            with pytest.raises(InvalidParameterError, match=r"two dimensions; got 'a Series'.* frame.iloc\[\[0\]\]"):
                ask(X)
    for X in (frame.to_dict("records"), frame.iloc[0].to_dict()):
        with pytest.raises(InvalidParameterError, match=r"got 'dictionaries'. Pass pandas.DataFrame"):
            model.predict(X)


@each_estimator
def test_a_single_row_is_refused(estimator_class, stored):
    message = str(refusal(stored, estimator_class, X=ROWS[:1], y=TARGET[:1]))
    assert "1 sample(s)" in message
    assert "minimum of 2 is required" in message


@pytest.mark.parametrize(
    ("y", "fragments"),
    [
        (TARGET[:-1], ["inconsistent numbers of samples", "[30, 29]"]),
        (np.zeros((30, 1, 1)), ["dim 3", "dim <= 2 is required"]),
        (np.zeros((30, 0)), ["0 feature(s)"]),
        (replaced(TARGET, 3, np.nan), ["Input y contains NaN"]),
        (replaced(TARGET, 3, np.inf), ["Input y contains infinity"]),
        (replaced(TARGET, 3, "blue"), ["targets of a regression must be numbers", "'blue'", "RFLAFClassifier"]),
        (np.full(30, "$1,200"), ["targets of a regression must be numbers", "'$1,200'", "Name a column"]),
        (TARGET + 1j, ["Complex data not supported"]),
        (TARGET * 1e200, ["the variance of every column", "must be a finite number", "overflow", "Divide columns"]),
        (None, ["requires y to be passed", "y is None"]),
        (DAYS.to_numpy(), ["must be numbers", "datetime64", "Subtract a date"]),
        (pd.Series(DAYS.tz_localize("UTC")), ["must be numbers", "Timestamp", "Subtract a date"]),
        (DAYS - DAYS[0], ["must be numbers", "timedelta64", "Subtract a date"]),
        (pd.Series(DAYS.to_period("D")), ["must be numbers", "Period", "Subtract a date"]),
    ],
    ids=[
        "a row short", "three dimensions", "no outputs", "NaN", "inf", "a string", "strings", "complex", "overflow",
        "nothing", "dates", "dates of a zone", "durations", "periods",
    ],
)  # fmt: skip
@each_estimator
def test_targets_that_cannot_be_used_are_refused(y, fragments, estimator_class, stored):
    message = str(refusal(stored, estimator_class, y=y))
    for fragment in fragments:
        assert fragment in message


@each_estimator
def test_a_sparse_target_is_refused(estimator_class, stored):
    error = refusal(stored, estimator_class, (TypeError, ValueError), y=sp.csr_matrix(TARGET[:, None]))
    assert "sparse" in str(error).lower()


@pytest.mark.parametrize(
    ("weight", "fragments"),
    [
        (replaced(np.ones(30), 3, -1.0), ["Negative values", "sample_weight"]),
        (np.zeros(30), ["weight", "zero"]),
        (np.ones(29), ["sample_weight.shape == (29,), expected (30,)"]),
        (np.ones((30, 1)), ["Sample weights must be 1D"]),
        (replaced(np.ones(30), 3, np.nan), ["Input sample_weight contains NaN"]),
        (replaced(np.ones(30), 3, np.inf), ["Input sample_weight contains infinity"]),
        (replaced(np.ones(30), 3, "heavy"), ["could not convert string to float", "heavy"]),
    ],
    ids=["negative", "zeros", "a row short", "two dimensions", "NaN", "inf", "a string"],
)
@each_estimator
def test_weights_that_cannot_be_used_are_refused(weight, fragments, estimator_class, stored):
    message = str(refusal(stored, estimator_class, sample_weight=weight))
    for fragment in fragments:
        assert fragment in message


# After the fit


@pytest.mark.parametrize("method", ["predict", "transform", "score", "get_feature_names_out"])
def test_an_unfitted_estimator_says_that_it_is(method):
    arguments = {"predict": [ROWS], "transform": [ROWS], "score": [ROWS, TARGET], "get_feature_names_out": []}
    with pytest.raises(NotFittedError, match="not fitted yet"):
        getattr(RFLAFRegressor(), method)(*arguments[method])


def test_unfitted_features_say_that_they_are():
    with pytest.raises(NotFittedError, match="not fitted yet"):
        RandomActivationFeatures().transform(ROWS)


@pytest.mark.parametrize(
    ("X", "fragment"),
    [
        (ROWS[:, :2], "X has 2 features, but {name} is expecting 3 features"),
        (np.ones((4, 5)), "X has 5 features, but {name} is expecting 3 features"),
        (sp.csr_array(ROWS[:, :2]), "X has 2 features, but {name} is expecting 3 features"),
        (ROWS[0], "Expected 2D array, got 1D array"),
        (ROWS[:0], "minimum of 1 is required"),
        (replaced(ROWS, (3, 1), np.nan), "column '1' must hold numbers without gaps, as in the fit; got 'missing"),
        (replaced(ROWS, (3, 1), np.inf), "Input X contains infinity"),
        (replaced(ROWS, (3, 1), "blue"), "column '1' must hold numbers without gaps, as in the fit; got 'values of"),
    ],
    ids=["too narrow", "too wide", "sparse and too narrow", "one row", "no rows", "NaN", "inf", "a string"],
)
@each_estimator
def test_rows_that_cannot_be_predicted_are_refused_and_the_model_stays(X, fragment, estimator_class, stored):
    fitted = pickle.loads(stored[estimator_class])
    before = answer(fitted)
    methods = [fitted.transform, fitted.predict] if estimator_class is RFLAFRegressor else [fitted.transform]
    for method in methods:
        with pytest.raises(ValueError, match=re.escape(fragment.format(name=estimator_class.__name__))):
            method(X)
    assert_array_equal(answer(fitted), before)
