"""Tables of text, gaps and categories in the tools of scikit-learn, and in every method that takes rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.inspection import partial_dependence, permutation_importance
from sklearn.model_selection import GridSearchCV

from rflaf import RandomActivationFeatures, RFLAFClassifier, RFLAFRegressor
from rflaf.rows.tables import CategoryColumn

N = 300
QUICK = {"directions": "random", "alpha": 1e-3, "random_state": 0}


def houses():
    """Towns, codes, gaps and a truth value; the town and the code matter, the rest hardly."""
    rng = np.random.default_rng(0)
    town, code, size = rng.choice(["Rome", "Oslo", "Lima"], N), rng.integers(1, 9, N), rng.standard_normal(N)
    frame = pd.DataFrame(
        {
            "town": np.where(rng.random(N) < 0.1, None, town),
            "code": code,
            "size": np.where(rng.random(N) < 0.1, np.nan, size),
            "sold": rng.random(N) < 0.5,
        }
    )
    return frame, (town == "Oslo") * 2.0 + rng.permutation(9)[code] + 0.1 * size


def every_library(frame):
    return frame, pl.from_pandas(frame), pa.Table.from_pandas(frame, preserve_index=False)


@pytest.mark.parametrize("kind", [RFLAFRegressor, RFLAFClassifier, RandomActivationFeatures])
def test_tags_say_that_gaps_texts_and_categories_are_taken(kind):
    tags = kind().__sklearn_tags__().input_tags
    assert (tags.allow_nan, tags.string, tags.categorical) == (True, True, True)


def test_categories_are_named_numbered_or_masked():
    X, y = houses()
    given = ["code"], [1], [-3], [False, True, False, False]
    models = [RFLAFRegressor(6, categorical_features=some, **QUICK).fit(X, y) for some in given]
    for model in models:
        assert isinstance(model.table_encoding_.columns[1], CategoryColumn)
        np.testing.assert_array_equal(model.predict(X), models[0].predict(X))
    search = GridSearchCV(RFLAFRegressor(30, **QUICK), {"categorical_features": ["auto", ["code"]]}, cv=3).fit(X, y)
    assert search.best_params_ == {"categorical_features": ["code"]}


def test_more_rows_of_any_library_are_learned_alike():
    X, y = houses()
    expected = RFLAFRegressor(6, **QUICK).partial_fit(X[:200], y[:200]).partial_fit(X[200:], y[200:])
    assert not np.array_equal(expected.predict(X), RFLAFRegressor(6, **QUICK).partial_fit(X[:200], y[:200]).predict(X))
    for first in every_library(X[:200]):
        for rest in every_library(X[200:]):
            model = RFLAFRegressor(6, **QUICK).partial_fit(first, y[:200]).partial_fit(rest, y[200:])
            np.testing.assert_array_equal(model.predict(X), expected.predict(X))


def test_the_dependence_on_a_category_is_the_mean_prediction_at_each_level():
    X, y = houses()
    X = X.assign(town=X["town"].fillna("nowhere"))
    model = RFLAFRegressor(6, **QUICK).fit(X, y)
    found = partial_dependence(model, X, ["town"], categorical_features=["town"])
    assert found["grid_values"][0].tolist() == ["Lima", "Oslo", "Rome", "nowhere"]
    expected = [model.predict(X.assign(town=town)).mean() for town in found["grid_values"][0]]
    np.testing.assert_allclose(found["average"][0], expected, rtol=1e-12)
    importance = permutation_importance(model, X, y, n_repeats=3, random_state=0).importances_mean
    assert importance[0] > 10 * abs(importance[3])


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_features_of_a_table_come_as_the_frame_asked_for(library):
    X, y = houses()
    for rows in every_library(X):
        features = RandomActivationFeatures(6, **QUICK).set_output(transform=library).fit(rows, y)
        frame = features.transform(rows)
        assert type(frame).__module__.startswith(library)
        assert list(frame.columns) == list(features.get_feature_names_out())
        plain = features.set_output(transform="default").transform(X)
        np.testing.assert_array_equal(frame.to_numpy(), plain)


def test_numbers_without_gaps_are_held_to_the_rule_of_scikit_learn_unless_the_target_is_named():
    X, y = houses()
    X = X[["code"]].assign(size=np.arange(N) % 7.0)
    other = X[["size", "code"]].assign(more=1)
    with pytest.raises(ValueError, match="feature names should match those that were passed during fit"):
        RFLAFRegressor(6, **QUICK).fit(X, y).predict(other)
    named = RFLAFRegressor(6, **QUICK).fit(X.assign(price=y), "price")
    np.testing.assert_array_equal(named.predict(other), named.predict(X))


@pytest.mark.slow
def test_two_hundred_levels_on_a_million_rows_are_learned():
    rng = np.random.default_rng(0)
    city, x, noise = rng.integers(0, 200, 10**6), rng.standard_normal((10**6, 2)), rng.standard_normal(10**6)
    y = 3 * rng.standard_normal(200)[city] + np.sin(2 * x[:, 0]) + 0.8 * noise  # at most .935 can be explained
    names = np.array([f"city {at}" for at in range(200)], object)
    rows = pa.table({"city": pa.array(names[city]), "a": x[:, 0], "b": x[:, 1]})
    model = RFLAFRegressor(10, random_state=0).fit(rows[: 8 * 10**5], y[: 8 * 10**5])
    assert model.score(rows[8 * 10**5 :], y[8 * 10**5 :]) > 0.93
