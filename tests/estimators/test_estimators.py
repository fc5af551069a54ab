"""The estimators as scikit-learn, its users and the docs see them: checks, inputs, outputs and invariances."""

from __future__ import annotations

import logging
import pickle
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from settings import PAPER, seeded_regressor
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_info

from rflaf import BSplineBasis, LeverageSampling, RandomActivationFeatures, RFLAFRegressor, SharedActivation
from rflaf.errors import AssumptionWarning, StopReason
from rflaf.functions.bases import Basis, Pieces
from rflaf.functions.densities import Density, StudentT
from rflaf.training.memory import TableSize, least_memory
from rflaf.training.specification import LEAST_REFINED_ROWS

pytestmark = pytest.mark.usefixtures("small_pool")
ESTIMATORS = (RFLAFRegressor, RandomActivationFeatures)
LEVERAGE = {**PAPER, "sampling": LeverageSampling(80)}
REFINED = pytest.param({}, id="refined", marks=pytest.mark.slow)

each_estimator = pytest.mark.parametrize("estimator_class", ESTIMATORS)
each_sampling = pytest.mark.parametrize("sampling", [PAPER, LEVERAGE], ids=["plain", "leverage"])
refined_or_plain = pytest.mark.parametrize("settings", [REFINED, pytest.param(PAPER, id="plain")])
each_model = pytest.mark.parametrize(
    "settings", [REFINED, pytest.param(PAPER, id="plain"), pytest.param(LEVERAGE, id="leverage")]
)


def steady(n_components: int = 30, **others) -> RFLAFRegressor:
    """A penalty that is given: then the search amplifies rounding by little, and equal problems have equal answers."""
    sampling = others.get("sampling", "plain")
    if isinstance(sampling, LeverageSampling):
        others["sampling"] = replace(sampling, alpha=0.01)
    return seeded_regressor(n_components, **{**PAPER, "alpha": 1e-3, **others})


def two_outputs(y):
    return np.column_stack([y, y**2])


# The conventions of scikit-learn


@pytest.mark.slow
@parametrize_with_checks(
    [
        estimator_class(20, **settings)
        for estimator_class in ESTIMATORS
        for settings in ({}, PAPER, {**PAPER, "sampling": LeverageSampling(40)})
    ]
)
def test_every_check_of_scikit_learn_passes(estimator, check):
    check(estimator)


@each_estimator
def test_parameters_are_stored_as_given_and_survive_clone_and_set_params(estimator_class):
    given = {"n_components": 7, "density": StudentT(df=3.0), "alpha": 0.5, "basis": BSplineBasis(9), "random_state": 3}
    estimator = estimator_class(**given)
    assert given.items() <= estimator.get_params().items()
    assert clone(estimator).get_params() == estimator.get_params()
    assert estimator.set_params(n_components=8, basis="rbf").get_params()["n_components"] == 8
    assert estimator.basis == "rbf"


@pytest.mark.slow
@refined_or_plain
def test_a_clone_of_a_fitted_estimator_is_unfitted_and_fits_to_the_same_model(settings, easy):
    X, y = easy
    model = seeded_regressor(**settings).fit(X, y)
    copy = clone(model)
    assert not hasattr(copy, "model_")
    assert_array_equal(copy.fit(X, y).predict(X), model.predict(X))


@pytest.mark.slow
@each_estimator
@refined_or_plain
def test_the_html_view_names_the_class(estimator_class, settings, easy):
    estimator = estimator_class(10, random_state=0, **settings)
    assert estimator_class.__name__ in estimator._repr_html_()
    assert estimator_class.__name__ in estimator.fit(*easy)._repr_html_()


@pytest.mark.slow
@pytest.mark.parametrize("store", ["pickle", "joblib"])
@each_model
def test_a_stored_model_predicts_bit_for_bit_as_before(store, settings, easy, tmp_path):
    X, y = easy
    model = seeded_regressor(**settings).fit(X, y)
    before = model.predict(X), model.predict(X.astype(np.float32)), model.transform(X)
    if store == "pickle":
        loaded = pickle.loads(pickle.dumps(model))
    else:
        joblib.dump(model, tmp_path / "model.joblib")
        loaded = joblib.load(tmp_path / "model.joblib")
    after = loaded.predict(X), loaded.predict(X.astype(np.float32)), loaded.transform(X)
    for one, other in zip(before, after, strict=True):
        assert_array_equal(one, other)


def test_a_grid_search_over_the_width_of_a_pipeline_finds_that_wider_is_better(easy):
    X, y = easy
    pipeline = make_pipeline(StandardScaler(), seeded_regressor(**PAPER))
    search = GridSearchCV(pipeline, {"rflafregressor__n_components": [1, 40]}, cv=3).fit(X, y)
    assert search.best_params_ == {"rflafregressor__n_components": 40}
    assert search.best_score_ > 0.7


@pytest.mark.slow
@refined_or_plain
def test_the_features_feed_a_linear_model_in_a_pipeline(settings, easy):
    X, y = easy
    pipeline = make_pipeline(RandomActivationFeatures(40, random_state=0, **settings), Ridge(1e-3))
    assert cross_val_score(pipeline, X, y, cv=3).mean() > 0.7
    assert cross_val_score(LinearRegression(), X, y, cv=3).mean() < 0.5


@pytest.mark.slow
@pytest.mark.parametrize("last", [seeded_regressor, None], ids=["regressor", "features"])
@refined_or_plain
def test_weights_are_routed_through_a_pipeline(last, settings, easy):
    X, y = easy
    weight = np.random.default_rng(1).integers(0, 4, y.size).astype(float)
    with sklearn.config_context(enable_metadata_routing=True):
        if last is None:
            features = RandomActivationFeatures(20, random_state=0, **settings).set_fit_request(sample_weight=True)
            pipeline = make_pipeline(features, Ridge().set_fit_request(sample_weight=True))
            Z = clone(features).fit(X, y, sample_weight=weight).transform(X)
            expected = Ridge().fit(Z, y, sample_weight=weight).predict(Z)
        else:
            pipeline = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), last(**settings))
            pipeline[-1].set_fit_request(sample_weight=True)
            scaled = StandardScaler().fit_transform(X)
            expected = last(**settings).fit(scaled, y, sample_weight=weight).predict(scaled)
        assert_array_equal(pipeline.fit(X, y, sample_weight=weight).predict(X), expected)


def test_weights_are_routed_through_a_grid_search(easy):
    X, y = easy
    weight = (np.arange(y.size) % 3 > 0).astype(float)
    with sklearn.config_context(enable_metadata_routing=True):
        model = seeded_regressor(**PAPER).set_fit_request(sample_weight=True).set_score_request(sample_weight=False)
        search = GridSearchCV(model, {"n_components": [20]}, cv=2).fit(X, y, sample_weight=weight)
        weighted = seeded_regressor(20, **PAPER).fit(X, y, sample_weight=weight).predict(X)
        assert_array_equal(search.predict(X), weighted)
        assert np.any(weighted != seeded_regressor(20, **PAPER).fit(X, y).predict(X))


# Algorithm 1


@pytest.mark.slow
def test_the_paper_is_leverage_sampling_of_random_directions_under_one_activation(easy):
    X, y = easy
    model = RFLAFRegressor.paper(25, pool_size=60, random_state=0)
    assert (model.directions, model.activation, model.basis) == ("random", SharedActivation("exact"), "rbf")
    assert model.sampling == LeverageSampling(60)
    model.fit(X, y)
    assert model.leverage_scores_.shape == (60,)
    assert np.all((model.leverage_scores_ >= 0) & (model.leverage_scores_ <= 60))
    assert model.effective_dimension_ == pytest.approx(model.leverage_scores_.sum() / 60)
    assert 0 < model.effective_dimension_ < 60
    assert 1 <= model.n_components_ <= 25
    assert model.importance_.shape == (model.n_components_,)
    assert np.all(model.importance_ > 0)
    assert model.directions_.shape == (3, model.n_components_)
    assert model.activation_.coefficients.shape == (1, 16)
    assert model.score(X, y) > 0.9


@pytest.mark.slow
def test_the_paper_has_its_features_too(easy):
    X, y = easy
    features = RandomActivationFeatures.paper(25, pool_size=60, random_state=0).fit(X, y)
    assert_array_equal(
        features.transform(X), RFLAFRegressor.paper(25, pool_size=60, random_state=0).fit(X, y).transform(X)
    )


@each_estimator
def test_few_rows_are_fitted_by_functions_of_single_columns(estimator_class, easy):
    X, y = (part[: LEAST_REFINED_ROWS - 1] for part in easy)
    few = estimator_class(10, random_state=0).fit(X, y)
    assert few.stop_reason_ is StopReason.CONVEX
    assert_array_equal(few.directions_ != 0, np.eye(X.shape[1], dtype=bool))


@pytest.mark.slow
def test_importance_is_the_root_of_the_draws_over_those_expected(easy):
    model = RFLAFRegressor.paper(25, pool_size=60, random_state=0).fit(*easy)
    q = model.leverage_scores_ / model.leverage_scores_.sum()
    draws_by_pool_member = model.importance_[:, None] ** 2 * 60 * q
    assert np.all(np.abs(draws_by_pool_member - np.round(draws_by_pool_member)).min(axis=1) < 1e-9)


def test_a_wider_draw_than_the_pool_can_offer_is_merged(easy):
    model = seeded_regressor(50, **{**LEVERAGE, "sampling": LeverageSampling(50)}).fit(*easy)
    assert model.n_components_ < 50
    assert model.n_components_ == np.unique(model.directions_, axis=1).shape[1]


@refined_or_plain
def test_plain_sampling_has_no_scores_and_weights_all_components_alike(settings, easy):
    model = seeded_regressor(**{"alpha": 1e-4, **settings}).fit(*easy)
    assert model.leverage_scores_ is None
    assert model.effective_dimension_ is None
    assert model.n_components_ == 30
    assert_array_equal(model.importance_, np.ones(30))


def test_scores_from_part_of_the_rows_come_with_their_error(easy):
    sampled = seeded_regressor(**{**LEVERAGE, "sampling": LeverageSampling(80, rows=100)}).fit(*easy)
    assert 0 < sampled.leverage_.relative_error < 1
    assert seeded_regressor(**LEVERAGE).fit(*easy).leverage_.relative_error == 0


def test_the_effective_dimension_falls_as_its_lambda_grows(easy):
    samplings = (LeverageSampling(80, lam) for lam in (1e-4, 1e-2, 1))
    with pytest.warns(
        AssumptionWarning, match=r"lambda must be at most the largest eigenvalue of the kernel.*; got 1\."
    ):
        dimensions = [seeded_regressor(**PAPER, sampling=one).fit(*easy).effective_dimension_ for one in samplings]
    assert dimensions[0] > dimensions[1] > dimensions[2]


# Inputs


@pytest.mark.slow
def test_a_data_frame_names_the_features_and_another_order_is_refused(easy):
    X, y = easy
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = steady().fit(frame, pd.Series(y))
    assert_array_equal(model.feature_names_in_, ["a", "b", "c"])
    assert_allclose(model.predict(frame), steady().fit(X, y).predict(X), rtol=0, atol=1e-8)
    with pytest.raises(ValueError, match="Feature names must be in the same order"):
        model.predict(frame[["b", "a", "c"]])
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame.rename(columns={"a": "z"}))


def test_polars_is_as_good_as_pandas(easy):
    X, y = easy
    frame = pl.DataFrame(X, schema=["a", "b", "c"])
    model = steady().fit(frame, pl.Series(y))
    assert_array_equal(model.feature_names_in_, ["a", "b", "c"])
    assert_allclose(model.predict(frame), steady().fit(X, y).predict(X), rtol=0, atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("frame_class", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_a_refined_model_knows_the_names_of_its_features_and_is_that_of_the_array(frame_class, easy):
    X, y = easy
    frame = frame_class(dict(zip("abc", X.T, strict=True)))
    model = seeded_regressor(8).fit(frame, y)
    assert_array_equal(model.feature_names_in_, ["a", "b", "c"])
    assert_allclose(model.predict(frame), seeded_regressor(8).fit(X, y).predict(X), rtol=0, atol=0.01)
    with pytest.raises(ValueError, match="Feature names must be in the same order"):
        model.predict(frame[["b", "a", "c"]])


@pytest.mark.slow
@refined_or_plain
def test_refitting_without_names_forgets_the_names(settings, easy):
    X, y = easy
    model = seeded_regressor(**settings).fit(pd.DataFrame(X, columns=["a", "b", "c"]), y).fit(X, y)
    assert not hasattr(model, "feature_names_in_")


@pytest.mark.slow
@pytest.mark.parametrize(
    "convert", [sp.csr_matrix, sp.csc_matrix, sp.coo_matrix, sp.csr_array, sp.csc_array, sp.coo_array]
)
@each_sampling
def test_sparse_rows_give_the_model_of_the_same_dense_rows(convert, sampling):
    rng = np.random.default_rng(2)
    X = rng.standard_normal((300, 6)) * (rng.random((300, 6)) < 0.4)
    y = np.tanh(X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(300)
    dense, sparse = (steady(**sampling).fit(rows, y) for rows in (X, convert(X)))
    assert_allclose(sparse.predict(convert(X)), dense.predict(X), rtol=0, atol=1e-8)
    assert_allclose(dense.predict(convert(X)), dense.predict(X), rtol=0, atol=1e-10)
    assert_allclose(dense.transform(convert(X)), dense.transform(X), rtol=0, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("convert", [sp.csr_matrix, sp.coo_array])
def test_sparse_rows_give_nearly_the_refined_model_of_the_same_dense_rows(convert):
    rng = np.random.default_rng(2)
    X = rng.standard_normal((300, 6)) * (rng.random((300, 6)) < 0.4)
    y = np.tanh(X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(300)
    dense, sparse = (seeded_regressor(8).fit(rows, y) for rows in (X, convert(X)))
    assert dense.stop_reason_ is StopReason.TRAINED
    assert_allclose(sparse.predict(convert(X)), dense.predict(X), rtol=0, atol=0.01)
    assert_allclose(dense.predict(convert(X)), dense.predict(X), rtol=0, atol=1e-10)
    assert_allclose(dense.transform(convert(X)), dense.transform(X), rtol=0, atol=1e-10)


@pytest.mark.slow
@refined_or_plain
def test_a_memory_map_gives_bit_for_bit_the_model_of_the_array(settings, easy, tmp_path):
    X, y = easy
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    X_map, y_map = (np.load(tmp_path / name, mmap_mode="r") for name in ("X.npy", "y.npy"))
    model = seeded_regressor(**settings).fit(X_map, y_map)
    assert_array_equal(model.predict(X_map), seeded_regressor(**settings).fit(X, y).predict(X))
    assert_array_equal(X_map, X)


@pytest.mark.slow
@pytest.mark.parametrize(
    "view",
    [
        np.asfortranarray,
        lambda X: np.repeat(X, 2, axis=1)[:, ::2],
        lambda X: X[::-1].copy()[::-1],
        np.ndarray.tolist,
    ],
    ids=["fortran", "every other column", "reversed", "lists"],
)
def test_the_layout_of_the_rows_in_memory_does_not_matter(view, easy):
    X, y = easy
    model = steady().fit(view(X), y)
    expected = steady().fit(X, y)
    assert_allclose(model.predict(X), expected.predict(X), rtol=0, atol=1e-8)
    assert_allclose(expected.predict(view(X)), expected.predict(X), rtol=0, atol=1e-12)
    assert_allclose(expected.transform(view(X)), expected.transform(X), rtol=0, atol=1e-12)


@pytest.mark.slow
@refined_or_plain
def test_fitting_and_predicting_leave_the_data_as_they_were(settings, easy):
    X, y, weight = easy[0].copy(), easy[1].copy(), np.ones(600)
    seeded_regressor(**settings).fit(X, y, sample_weight=weight).predict(X)
    assert_array_equal(X, easy[0])
    assert_array_equal(y, easy[1])
    assert_array_equal(weight, 1)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("convert", [np.asarray, sp.csr_array])
@refined_or_plain
def test_the_answer_has_the_dtype_of_the_rows(dtype, convert, settings, easy):
    X, y = easy
    rows = convert(X.astype(dtype))
    model = seeded_regressor(**settings).fit(rows, y.astype(dtype))
    assert model.predict(rows).dtype == dtype
    assert model.transform(rows).dtype == dtype


@pytest.mark.slow
@refined_or_plain
def test_whole_numbers_are_computed_in_double_precision(settings, easy):
    X, y = np.round(4 * easy[0]).astype(int), easy[1]
    model = seeded_regressor(**settings).fit(X, y)
    assert model.predict(X).dtype == np.float64
    assert_array_equal(model.predict(X), seeded_regressor(**settings).fit(X.astype(float), y).predict(X.astype(float)))


@pytest.mark.slow
@refined_or_plain
def test_single_precision_is_as_accurate_for_noisy_data(settings, easy):
    X, y = easy
    single, double = seeded_regressor(**settings).fit(X.astype(np.float32), y), seeded_regressor(**settings).fit(X, y)
    assert single.score(X.astype(np.float32), y) == pytest.approx(double.score(X, y), abs=5e-3)
    assert_allclose(double.predict(X.astype(np.float32)), double.predict(X), rtol=0, atol=1e-4)


# Outputs


@pytest.mark.slow
@each_estimator
@pytest.mark.parametrize(("library", "frame"), [("pandas", pd.DataFrame), ("polars", pl.DataFrame)])
@refined_or_plain
def test_features_come_as_the_frame_asked_for(estimator_class, library, frame, settings, easy):
    X, y = easy
    estimator = estimator_class(10, random_state=0, **settings).fit(X, y)
    plain = estimator.transform(X)
    features = estimator.set_output(transform=library).transform(X)
    assert isinstance(features, frame)
    assert list(features.columns) == list(estimator.get_feature_names_out())
    assert_array_equal(features.to_numpy(), plain)


@each_estimator
@each_model
def test_features_are_named_after_the_class_and_numbered(estimator_class, settings, easy):
    estimator = estimator_class(10, **settings, random_state=0).fit(*easy)
    names = estimator.get_feature_names_out()
    assert len(names) == estimator.n_components_ == estimator.transform(easy[0]).shape[1]
    assert names[0] == f"{estimator_class.__name__.lower()}0"
    assert len(set(names)) == len(names)


@pytest.mark.slow
@refined_or_plain
def test_both_estimators_learn_the_same_features(settings, easy):
    X, y = easy
    features = RandomActivationFeatures(30, random_state=0, **settings)
    assert_array_equal(features.fit_transform(X, y), seeded_regressor(**settings).fit(X, y).transform(X))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_outputs", "prediction", "coef", "intercept"),
    [(None, (600,), (30,), ()), (1, (600, 1), (1, 30), (1,)), (3, (600, 3), (3, 30), (3,))],
)
@refined_or_plain
def test_predictions_have_the_shape_of_the_targets(n_outputs, prediction, coef, intercept, settings, easy):
    X, y = easy
    targets = y if n_outputs is None else np.column_stack([y + k * X[:, 2] for k in range(n_outputs)])
    model = seeded_regressor(**{"alpha": 1e-4, **settings}).fit(X, targets)
    assert model.predict(X).shape == prediction
    assert model.output_weights_.shape == coef
    assert np.shape(model.intercept_) == intercept
    assert model.score(X, targets) > 0.9


@pytest.mark.slow
@refined_or_plain
def test_one_column_of_targets_is_the_same_model_as_a_vector(settings, easy):
    X, y = easy
    assert_array_equal(
        seeded_regressor(**settings).fit(X, y[:, None]).predict(X)[:, 0],
        seeded_regressor(**settings).fit(X, y).predict(X),
    )


@pytest.mark.slow
@each_model
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("outputs", [np.asarray, two_outputs], ids=["one output", "two outputs"])
def test_predictions_are_the_features_times_the_coefficients_plus_the_intercept(settings, fit_intercept, outputs, easy):
    X, y = easy
    model = seeded_regressor(**settings, fit_intercept=fit_intercept).fit(X, outputs(y))
    assert_allclose(
        model.transform(X) @ model.output_weights_.T + model.intercept_, model.predict(X), rtol=0, atol=1e-9
    )


def test_features_are_the_weighted_activation_of_the_projections(easy):
    X, y = easy
    model = seeded_regressor(**LEVERAGE).fit(X, y)
    z = X @ model.directions_ + model.model_.directions.offset
    assert_allclose(model.transform(X), model.importance_ * model.activation_(z), rtol=0, atol=1e-9)


@pytest.mark.slow
@refined_or_plain
def test_without_an_intercept_there_is_none(settings, easy):
    X, y = easy
    model = seeded_regressor(fit_intercept=False, **settings).fit(X, y + 3)
    assert model.intercept_ == 0.0
    assert model.score(X, y + 3) > 0.9


def test_the_fit_is_the_ridge_of_its_own_features(easy):
    X, y = easy
    model = seeded_regressor(alpha=1e-3, **PAPER).fit(X, y)
    ridge = Ridge(alpha=1e-3 * 30 * y.size, tol=1e-12).fit(model.transform(X), y)
    assert model.alpha_ == pytest.approx(1e-3)
    assert_allclose(model.predict(X), ridge.predict(model.transform(X)), rtol=0, atol=1e-8)


# Weights


@each_sampling
def test_whole_weights_act_as_repeated_rows(sampling, easy):
    X, y = easy
    weight = np.random.default_rng(3).integers(0, 4, y.size)
    weighted = steady(**sampling).fit(X, y, sample_weight=weight)
    repeated = steady(**sampling).fit(X.repeat(weight, axis=0), y.repeat(weight))
    assert_allclose(weighted.predict(X), repeated.predict(X), rtol=0, atol=1e-8)
    assert_allclose(weighted.transform(X), repeated.transform(X), rtol=0, atol=1e-7)


@each_sampling
def test_a_row_of_weight_zero_is_as_good_as_absent(sampling, easy):
    X, y = easy
    weight = np.random.default_rng(4).uniform(0.5, 2, y.size)
    weight[::3] = 0
    spoiled = np.where(weight == 0, 1e3, y)
    kept = weight > 0
    weighted = steady(**sampling).fit(X, spoiled, sample_weight=weight)
    dropped = steady(**sampling).fit(X[kept], y[kept], sample_weight=weight[kept])
    assert_allclose(weighted.predict(X), dropped.predict(X), rtol=0, atol=1e-8)


@pytest.mark.slow
def test_a_row_of_weight_zero_does_a_refined_model_no_harm(easy):
    X, y = easy
    weight = np.random.default_rng(4).uniform(0.5, 2, y.size)
    weight[::3] = 0
    kept = weight > 0
    weighted = seeded_regressor().fit(X, np.where(kept, y, 1e3), sample_weight=weight)
    dropped = seeded_regressor().fit(X[kept], y[kept], sample_weight=weight[kept])
    assert weighted.score(X, y) == pytest.approx(dropped.score(X, y), abs=0.01)


@pytest.mark.slow
def test_a_refined_model_follows_the_rows_that_weigh_most(easy):
    X, y = easy
    rows, targets = np.concatenate([X, X]), np.concatenate([y, -y])
    weight = np.repeat([1.0, 1e-3], y.size)
    assert seeded_regressor().fit(rows, targets, sample_weight=weight).score(X, y) > 0.95
    assert seeded_regressor().fit(rows, targets, sample_weight=weight[::-1]).score(X, -y) > 0.95


@pytest.mark.slow
@pytest.mark.parametrize("factor", [2.0**-10, 0.3, 7.0, 2.0**40])
@each_sampling
def test_weights_times_a_constant_give_the_same_model(factor, sampling, easy):
    X, y = easy
    weight = np.random.default_rng(5).uniform(0.5, 2, y.size)
    one, other = (steady(**sampling).fit(X, y, sample_weight=w) for w in (weight, factor * weight))
    assert_allclose(other.predict(X), one.predict(X), rtol=0, atol=1e-8)


@pytest.mark.slow
@refined_or_plain
def test_a_single_number_weighs_all_rows_alike(settings, easy):
    X, y = easy
    assert_array_equal(
        seeded_regressor(**settings).fit(X, y, sample_weight=1.0).predict(X),
        seeded_regressor(**settings).fit(X, y).predict(X),
    )


# Random numbers and threads


@pytest.fixture(scope="module")
def long_table():
    """Rows for several blocks and for a sample in every stage that samples: X (9000, 4), y (9000,)."""
    rng = np.random.default_rng(6)
    X = rng.standard_normal((9000, 4))
    return X, np.cos(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.2 * rng.standard_normal(9000)


@pytest.mark.slow
@each_model
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_number_of_threads_does_not_change_a_bit_of_the_model(settings, dtype, long_table):
    X, y = long_table[0].astype(dtype), long_table[1]
    numbers = (1, 2, 4, None) if settings else (1, 3)
    models = [seeded_regressor(**settings, n_jobs=n_jobs).fit(X, y) for n_jobs in numbers]
    for one, other in pairwise(models):
        assert_array_equal(one.output_weights_, other.output_weights_)
        assert_array_equal(one.directions_, other.directions_)
        assert_array_equal(one.activation_.coefficients, other.activation_.coefficients)
        assert_array_equal(one.predict(X), other.predict(X))
        assert one.intercept_ == other.intercept_


@pytest.mark.slow
@refined_or_plain
def test_prediction_in_threads_is_bit_for_bit_that_of_one_thread(settings, easy):
    model = seeded_regressor(n_components=100, n_jobs=1, **settings).fit(*easy)
    rows = np.random.default_rng(7).standard_normal((450_001, 3))
    alone = model.predict(rows)
    assert_array_equal(model.set_params(n_jobs=4).predict(rows), alone)


@each_sampling
def test_another_memory_budget_changes_the_model_by_rounding_only(sampling, easy):
    X, y = easy
    least = least_memory(steady(**sampling)._spec(), TableSize(*X.shape, 1, 8))
    whole, cut = (steady(**sampling, memory=memory).fit(X, y) for memory in ("auto", least))
    assert_allclose(cut.predict(X), whole.predict(X), rtol=0, atol=1e-8)


@pytest.mark.slow
@each_model
def test_the_same_seed_gives_the_same_model_and_another_seed_another(settings, easy):
    X, y = easy
    first, again, other = (seeded_regressor(**settings, random_state=seed).fit(X, y).predict(X) for seed in (0, 0, 1))
    assert_array_equal(first, again)
    assert np.any(first != other)


@pytest.mark.slow
@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState], ids=["Generator", "RandomState"])
@refined_or_plain
def test_a_generator_is_drawn_from_so_that_a_second_fit_differs(make, settings, easy):
    X, y = easy
    first, again = (seeded_regressor(random_state=make(0), **settings).fit(X, y).predict(X) for _ in range(2))
    assert_array_equal(first, again)
    model = seeded_regressor(random_state=make(0), **settings)
    assert_array_equal(model.fit(X, y).predict(X), first)
    assert np.any(model.fit(X, y).predict(X) != first)


@pytest.mark.slow
@refined_or_plain
def test_without_a_seed_two_fits_differ(settings, easy):
    X, y = easy
    drawn = {"random_state": None, "alpha": 1e-4, **settings}
    one, other = (seeded_regressor(**drawn).fit(X, y).predict(X) for _ in range(2))
    assert np.any(one != other)


@refined_or_plain
def test_fitting_does_not_touch_the_global_random_state(settings, easy):
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    seeded_regressor(**settings).fit(*easy)
    assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


@pytest.mark.slow
@pytest.mark.parametrize(
    ("prefer", "settings"), [("processes", {}), ("processes", PAPER), ("threads", PAPER)],
    ids=["refined in processes", "plain in processes", "plain in threads"],
)  # fmt: skip
def test_fits_nested_in_joblib_are_those_of_a_loop(prefer, settings, long_table):
    X, y = long_table
    models = [seeded_regressor(20, random_state=seed, **settings) for seed in range(3)]
    fitted = joblib.Parallel(n_jobs=2, prefer=prefer)(joblib.delayed(clone(model).fit)(X, y) for model in models)
    for alone, nested in zip(models, fitted, strict=True):
        assert_array_equal(nested.predict(X), alone.fit(X, y).predict(X))


class Watching:
    """Gaussian directions, and how many threads BLAS has while they are drawn."""

    name = "watching"

    def __init__(self):
        self.seen = []

    def sample(self, n_features, n_components, rng):
        self.seen += blas_threads()
        return rng.standard_normal((n_features, n_components))

    def log_density(self, W):
        return np.zeros(np.shape(W)[1])


def blas_threads() -> list[int]:
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


@pytest.mark.slow
@refined_or_plain
def test_blas_has_one_thread_during_a_fit_wherever_it_runs_and_its_own_number_afterwards(settings, easy):
    before, densities = blas_threads(), [Watching() for _ in range(6)]
    with ThreadPoolExecutor(2) as pool:
        for density in densities[:2]:
            seeded_regressor(8, density=density, **settings).fit(*easy)
        list(pool.map(lambda density: seeded_regressor(8, density=density, **settings).fit(*easy), densities[2:4]))
        for density in densities[4:]:
            pool.submit(seeded_regressor(8, density=density, **settings).fit, *easy).result()
    assert [set(density.seen) for density in densities] == [{1}] * 6
    assert blas_threads() == before


# Progress and convergence


@each_model
def test_a_verbose_fit_logs_its_stages_on_standard_error(settings, easy, caplog, capsys):
    seeded_regressor(**settings, verbose=True).fit(*easy)
    records = [record for record in caplog.records if record.name == "rflaf"]
    assert records
    assert all(record.levelno == logging.INFO for record in records)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("[rflaf]") == len(records)
    for record in records:
        assert record.getMessage() in captured.err


@each_model
def test_a_quiet_fit_says_nothing(settings, easy, caplog, capsys):
    seeded_regressor(**settings, verbose=True).fit(*easy)
    capsys.readouterr()
    caplog.clear()
    seeded_regressor(**settings).fit(*easy)
    captured = capsys.readouterr()
    assert (captured.out, captured.err, caplog.records) == ("", "", [])


def test_too_few_steps_are_warned_of_with_advice(easy):
    with pytest.warns(
        ConvergenceWarning, match="the fit stopped at the most steps .* raise alpha, or lower n_components"
    ):
        model = seeded_regressor(max_iter=1, **PAPER).fit(*easy)
    assert model.stop_reason_ is StopReason.ITERATIONS
    check_is_fitted(model)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert seeded_regressor(**PAPER).fit(*easy).stop_reason_ is StopReason.CONVERGED


@each_sampling
@pytest.mark.parametrize("basis", ["bspline", "rbf"])
@pytest.mark.parametrize("alpha", ["auto", 1e-4])
def test_the_objective_never_rises(sampling, basis, alpha, easy):
    trace = seeded_regressor(**sampling, basis=basis, alpha=alpha, tol=1e-6, max_iter=2000).fit(*easy).objective_trace_
    assert len(trace) > 2
    assert np.all(np.diff(trace) <= 1e-12 * trace[:-1])
    assert trace[-1] < trace[0]


def test_a_constant_target_is_predicted_and_called_so(easy):
    X, _ = easy
    model = seeded_regressor(**PAPER).fit(X, np.full(600, 5.5))
    assert_array_equal(model.predict(X), 5.5)
    assert model.stop_reason_ is StopReason.NOTHING_TO_LEARN


@each_model
def test_a_constant_target_is_predicted_everywhere(settings, easy):
    X, _ = easy
    assert_array_equal(seeded_regressor(**settings).fit(X, np.full(600, 5.5)).predict(3 * X), 5.5)


# Choices


@pytest.mark.parametrize("basis", ["bspline", "rbf"])
@pytest.mark.parametrize("density", ["gaussian", "student_t", "cauchy", "orthogonal", "sobol"])
@each_sampling
def test_every_choice_of_basis_density_and_sampling_learns(basis, density, sampling, easy):
    X, y = easy
    model = seeded_regressor(basis=basis, density=density, **sampling).fit(X[:400], y[:400])
    assert model.score(X[400:], y[400:]) > 0.5
    assert model.model_.describe()["basis"].lower() == f"{basis}basis"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("basis", "density"),
    [("rbf", "gaussian"), *[("bspline", density) for density in ("student_t", "cauchy", "orthogonal", "sobol")]],
)
def test_a_refined_model_learns_from_any_basis_and_density(basis, density, easy):
    X, y = easy
    bandwidth = 1.0 if density in ("student_t", "cauchy") else "auto"
    model = seeded_regressor(8, basis=basis, density=density, bandwidth=bandwidth).fit(X[:400], y[:400])
    assert model.score(X[400:], y[400:]) > 0.9
    assert model.model_.describe()["basis"].lower() == f"{basis}basis"


@dataclass(frozen=True)
class CubicPolynomials:
    """t^0, ..., t^3 of t = z / 6, clipped to [-1/2, 1/2]: a basis of one cell."""

    n_basis: int = 4
    interval: tuple[float, float] = (-3.0, 3.0)

    def values(self, z):
        return np.clip(np.asarray(z, dtype=float) / 6, -0.5, 0.5)[..., None] ** np.arange(4)

    def slopes(self, z):
        t = np.clip(np.asarray(z, dtype=float) / 6, -0.5, 0.5)[..., None]
        return np.arange(4) * t ** np.array([0, 0, 1, 2]) / 6 * (np.abs(t) < 0.5)

    def penalty(self):
        return np.diag([0.0, 0.0, 1.0, 1.0])

    def pieces(self, a=None, tolerance=1e-6):
        return Pieces(-3.0, 6.0, np.eye(4)[None])


@dataclass(frozen=True)
class OnTheSphere:
    """Directions of length sqrt(n_features), all alike."""

    name: str = "sphere"

    def sample(self, n_features, n_components, rng):
        W = rng.standard_normal((n_features, n_components))
        return W / np.linalg.norm(W, axis=0) * np.sqrt(n_features)

    def log_density(self, W):
        return np.zeros(np.shape(W)[1])


def test_a_basis_of_your_own_is_accepted(easy):
    X, y = easy
    assert isinstance(CubicPolynomials(), Basis)
    model = clone(seeded_regressor(basis=CubicPolynomials(), **PAPER)).fit(X, y)
    assert model.activation_.coefficients.shape == (1, 4)
    assert model.score(X, y) > 0.8
    z = X @ model.directions_ + model.model_.directions.offset
    assert_allclose(model.transform(X), model.activation_(z), rtol=0, atol=1e-9)


@pytest.mark.slow
def test_a_refined_model_accepts_a_basis_and_a_density_of_your_own(easy):
    X, y = easy
    model = clone(seeded_regressor(basis=CubicPolynomials(), density=OnTheSphere())).fit(X, y)
    assert model.activation_.coefficients.shape == (model.n_components_, 4)
    assert model.score(X, y) > 0.9


@each_sampling
def test_a_density_of_your_own_is_accepted(sampling, easy):
    X, y = easy
    assert isinstance(OnTheSphere(), Density)
    model = clone(seeded_regressor(density=OnTheSphere(), **sampling)).fit(X, y)
    standardised = model.directions_ * X.std(axis=0)[:, None]
    assert_allclose(np.linalg.norm(standardised, axis=0), np.sqrt(3) / model.bandwidth_)
    assert model.score(X, y) > 0.9


@pytest.mark.slow
@refined_or_plain
def test_a_given_bandwidth_and_alpha_are_used(settings, long_table):
    model = seeded_regressor(bandwidth=2.5, alpha=0.01, **settings).fit(*long_table)
    assert model.bandwidth_ == 2.5
    assert model.alpha_ == pytest.approx(0.01)
    automatic = seeded_regressor(**settings).fit(*long_table)
    assert automatic.bandwidth_ > 0
    assert automatic.alpha_ > 0


def test_a_heavier_penalty_fits_less(easy):
    X, y = easy
    scores = [seeded_regressor(alpha=alpha, **PAPER).fit(X, y).score(X, y) for alpha in (1e-6, 1e-2, 1e4)]
    assert scores[0] > scores[1] > scores[2] > -1e-6


# Invariances


@pytest.fixture(scope="module")
def dyadic():
    """Entries that are multiples of 2^-10, so that shifts by whole numbers are exact: X (300, 3), y (300,)."""
    rng = np.random.default_rng(8)
    X = np.round(rng.standard_normal((300, 3)) * 2**10) / 2**10
    y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 / 2 + 0.2 * rng.standard_normal(300)
    return X, np.round(y * 2**10) / 2**10


@each_sampling
@pytest.mark.parametrize("basis", ["bspline", "rbf"])
def test_shifts_and_scales_of_the_columns_leave_predictions_unchanged(sampling, basis, dyadic):
    X, y = dyadic
    moved = X * 2.0 ** np.array([-20, 0, 30]) + np.array([0, 5, 2.0**30])
    expected = steady(basis=basis, **sampling).fit(X, y).predict(X)
    assert_allclose(steady(basis=basis, **sampling).fit(moved, y).predict(moved), expected, rtol=0, atol=1e-8)


@each_sampling
@pytest.mark.parametrize(("slope", "shift"), [(2.0**20, 0.0), (1.0, 64.0), (-3.0, 100.0), (1e-9, 0.0)])
def test_an_affine_map_of_the_target_maps_the_predictions(sampling, slope, shift, dyadic):
    X, y = dyadic
    expected = slope * steady(**sampling).fit(X, y).predict(X) + shift
    mapped = steady(**sampling).fit(X, slope * y + shift).predict(X)
    assert_allclose(mapped, expected, rtol=0, atol=1e-8 * abs(slope))


@each_sampling
def test_the_order_of_the_rows_does_not_matter(sampling, dyadic):
    X, y = dyadic
    order = np.random.default_rng(9).permutation(300)
    model = steady(**sampling).fit(X[order], y[order])
    assert_allclose(model.predict(X), steady(**sampling).fit(X, y).predict(X), rtol=0, atol=1e-8)


@refined_or_plain
def test_a_constant_column_changes_no_prediction(settings, dyadic):
    X, y = dyadic
    model = seeded_regressor(**settings).fit(np.column_stack([X, np.full(300, 7.0)]), y)
    near, far = (model.predict(np.column_stack([X, np.full(300, value)])) for value in (7.0, -1e6))
    assert_array_equal(near, far)
    assert r2_score(y, near) > 0.9
