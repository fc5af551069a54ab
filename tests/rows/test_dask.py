"""Rows on a cluster: any partition, scheduler and number of workers gives the model of the rows in memory."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
import time
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from settings import CONVEX, PAPER, limited
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from rflaf import (
    BSplineBasis,
    InvalidParameterError,
    LeverageSampling,
    RandomActivationFeatures,
    RFLAFClassifier,
    RFLAFRegressor,
)
from rflaf.errors import ClusterError
from rflaf.rows.blocks import ArraySource, Block, Pairs, Scratch, StandardisedTargets, parts_of
from rflaf.rows.dask import Cluster, DaskExecutor, DaskSource, is_collection, open_collection
from rflaf.rows.dask.executor import _add
from rflaf.rows.executors import ThreadExecutor
from rflaf.rows.inputs import executor_for

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")

pytestmark = pytest.mark.usefixtures("small_pool")
N = 1200
PARTITIONS = (1, 2, 7, 40)


@pytest.fixture(scope="module")
def rows():
    """X (1200, 3), y (1200,), labels of three classes and weights."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (N, 3))
    y = 5 + np.sin(1.5 * X[:, 0]) + X[:, 1] ** 2 / 2 + 0.1 * rng.standard_normal(N)
    return X, y, np.array(["high", "low", "mid"])[np.digitize(y, [5.5, 6.2])], rng.uniform(0.2, 2, N)


def cut(values, n_parts, columns=-1):
    """An array in about equal parts."""
    chunks = -(-len(values) // n_parts)
    return da.from_array(values, chunks=chunks if values.ndim == 1 else (chunks, columns))


@pytest.fixture
def here():
    """No cluster, no threads: everything is done in turn."""
    with dask.config.set(scheduler="sync"):
        yield


@pytest.fixture(scope="module")
def cluster():
    """Two worker processes."""
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs="CRITICAL"
    ) as cluster:
        yield cluster


@pytest.fixture
def client(cluster):
    with distributed.Client(cluster) as client:
        yield client


REGRESSORS = {
    "shared": {**PAPER},
    "leverage": {**PAPER, "sampling": LeverageSampling(40)},
    "per component": {**CONVEX, "basis": BSplineBasis(8)},
    "greedy": {**CONVEX, "basis": BSplineBasis(8), "sampling": "greedy"},
    "huber": {**PAPER, "loss": "huber", "alpha": 1e-4},
    "quantile": {**CONVEX, "basis": BSplineBasis(6), "loss": "quantile", "alpha": 1e-3},
}


def named_regressor(name="shared", **others):
    return limited(RFLAFRegressor, 10, **{"random_state": 0, **REGRESSORS[name], **others})


@pytest.fixture(scope="module")
def in_memory(rows):
    X, y, labels, weight = rows
    models = {name: named_regressor(name).fit(X, y) for name in REGRESSORS}
    models["weighted"] = named_regressor().fit(X, y, weight)
    models["classifier"] = RFLAFClassifier(10, random_state=0, alpha=1e-4, **PAPER).fit(X, labels)
    return models


# Any partition


@pytest.mark.slow
@pytest.mark.parametrize("n_parts", PARTITIONS)
@pytest.mark.parametrize("name", list(REGRESSORS))
def test_any_partition_gives_the_model_of_the_rows_in_memory(name, n_parts, rows, in_memory, here):
    X, y, _, _ = rows
    model = named_regressor(name).fit(cut(X, n_parts), cut(y, n_parts))
    assert_allclose(model.predict(X), in_memory[name].predict(X), rtol=0, atol=1e-6)


def test_weights_are_partitioned_too(rows, in_memory, here):
    X, y, _, weight = rows
    model = named_regressor().fit(cut(X, 7), cut(y, 7), cut(weight, 7))
    assert_allclose(model.predict(X), in_memory["weighted"].predict(X), rtol=0, atol=1e-8)


@pytest.mark.parametrize("n_parts", PARTITIONS)
def test_labels_of_any_partition_are_told_apart_as_in_memory(n_parts, rows, in_memory, here):
    X, _, labels, _ = rows
    model = clone(in_memory["classifier"]).fit(cut(X, n_parts), cut(labels, n_parts))
    assert_array_equal(model.classes_, in_memory["classifier"].classes_)
    assert_allclose(model.predict_proba(X), in_memory["classifier"].predict_proba(X), rtol=0, atol=1e-6)


@pytest.mark.slow
def test_the_ridge_that_is_chosen_does_not_depend_on_the_partition(rows, here):
    X, _, labels, _ = rows
    settings = {**PAPER, "random_state": 0, "class_weight": "balanced"}
    one = RFLAFClassifier(6, **settings).fit(X, labels == "low")
    other = RFLAFClassifier(6, **settings).fit(cut(X, 5), cut(labels == "low", 5))
    assert other.alpha_ == pytest.approx(one.alpha_)
    assert_allclose(other.predict_proba(X), one.predict_proba(X), rtol=0, atol=1e-6)


@pytest.mark.slow
def test_a_refined_model_is_trained_on_the_rows_that_are_streamed_here(rows, here):
    X, y, _, _ = rows
    settings = {"curves": True, "alpha": 1e-4, "random_state": 0}
    one = RFLAFRegressor(6, **settings).fit(X, y)
    other = RFLAFRegressor(6, **settings).fit(cut(X, 7), cut(y, 7))
    assert_allclose(other.predict(X), one.predict(X), rtol=0, atol=1e-6)


def test_features_are_learned_from_partitions(rows, here):
    X, y, _, _ = rows
    one = RandomActivationFeatures(10, random_state=0, **PAPER).fit(X, y)
    other = RandomActivationFeatures(10, random_state=0, **PAPER).fit(cut(X, 7), cut(y, 7))
    lazy = other.transform(cut(X, 3))
    assert isinstance(lazy, da.Array)
    assert_allclose(lazy, one.transform(X), rtol=0, atol=1e-8)


def test_several_targets_are_fitted_at_once(rows, here):
    X, y, _, _ = rows
    both = np.column_stack([y, -2 * y])
    one = named_regressor().fit(X, both)
    other = named_regressor().fit(cut(X, 7), cut(both, 7, columns=1))
    lazy = other.predict(cut(X, 7))
    assert lazy.shape == (N, 2)
    assert_allclose(lazy, one.predict(X), rtol=0, atol=1e-8)


@pytest.mark.slow
def test_frames_are_fitted_with_the_names_of_their_columns(rows, in_memory, here):
    X, y, _, weight = rows
    table = dd.from_pandas(pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=y, w=weight), npartitions=7)
    model = named_regressor().fit(table[["a", "b", "c"]], table["y"], table["w"])
    assert_array_equal(model.feature_names_in_, ["a", "b", "c"])
    lazy = model.predict(table[["a", "b", "c"]])
    assert isinstance(lazy, da.Array)
    assert_allclose(lazy.compute(), in_memory["weighted"].predict(X), rtol=0, atol=1e-8)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(table[["b", "a", "c"]])


@pytest.mark.slow
def test_labels_in_a_frame_may_be_texts(rows, in_memory, here):
    X, _, labels, _ = rows
    table = dd.from_pandas(pd.DataFrame(X, columns=["a", "b", "c"]).assign(label=labels), npartitions=5)
    model = clone(in_memory["classifier"]).fit(table[["a", "b", "c"]], table["label"])
    found = model.predict(table[["a", "b", "c"]]).compute()
    assert_array_equal(found, in_memory["classifier"].predict(X))


def test_whole_numbers_and_single_precision_are_taken(rows, here):
    X, y, _, _ = rows
    whole = np.round(3 * X).astype(int)
    one, other = named_regressor().fit(whole, y), named_regressor().fit(cut(whole, 3), cut(y, 3))
    assert_allclose(other.predict(whole), one.predict(whole), rtol=0, atol=1e-8)
    single = named_regressor().fit(cut(X.astype(np.float32), 3), cut(y, 3))
    assert single.predict(cut(X.astype(np.float32), 3)).dtype == np.float32
    assert_allclose(single.predict(X), named_regressor().fit(X.astype(np.float32), y).predict(X), atol=1e-2)


def test_counts_that_are_all_zero_are_refused_as_in_memory(rows, here):
    X, y, _, _ = rows
    messages = []
    for table, zeros in ((X, 0 * y), (cut(X, 7), cut(0 * y, 7))):
        with pytest.raises(InvalidParameterError, match="some counts must be above zero") as error:
            named_regressor(loss="poisson").fit(table, zeros)
        messages.append(str(error.value))
    assert messages[0] == messages[1]


def test_lazy_answers_are_not_written(rows, in_memory, here):
    with pytest.raises(InvalidParameterError, match="out must be None for Dask collections"):
        in_memory["shared"].predict(cut(rows[0], 3), out=np.empty(N))


def test_partitions_may_be_sparse(rows, here):
    X, y, _, _ = rows
    thin = np.where(np.abs(X) < 1, 0, X)
    blocks = [dask.delayed(sp.csr_array)(part) for part in np.array_split(thin, 4)]
    lazy = da.concatenate([da.from_delayed(b, (300, 3), meta=sp.csr_matrix((0, 3))) for b in blocks])
    model = named_regressor().fit(lazy, cut(y, 4))
    assert_allclose(model.predict(thin), named_regressor().fit(sp.csr_array(thin), y).predict(thin), rtol=0, atol=1e-8)


def test_chunks_of_partitions_are_learned(rows, here):
    X, y, _, _ = rows
    one, other = (named_regressor().fit(X[:500], y[:500]) for _ in range(2))
    one.partial_fit(X[500:], y[500:])
    other.partial_fit(cut(X[500:], 3), cut(y[500:], 3))
    assert_allclose(other.predict(X), one.predict(X), rtol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["shared", "huber"])
def test_rows_of_partitions_fade_in_their_order(name, rows, here):
    X, y, _, weight = rows
    one, other = (named_regressor(name, alpha=1e-3) for _ in range(2))
    for part in (slice(0, 500), slice(500, N)):
        one.partial_fit(X[part], y[part], weight[part], half_life=300)
        other.partial_fit(cut(X[part], 3), cut(y[part], 3), cut(weight[part], 3), half_life=300)
    assert_allclose(other.predict(X), one.predict(X), rtol=0, atol=1e-6)


def test_chunks_of_labels_are_learned(rows, here):
    X, _, labels, _ = rows
    settings = {**PAPER, "random_state": 0, "alpha": 1e-3}
    one, other = (RFLAFClassifier(6, **settings) for _ in range(2))
    for part in (slice(0, 700), slice(700, N)):
        one.partial_fit(X[part], labels[part], classes=["high", "low", "mid"])
        other.partial_fit(cut(X[part], 3), cut(labels[part], 3), classes=["high", "low", "mid"])
    assert_allclose(other.predict_proba(X), one.predict_proba(X), rtol=0, atol=1e-8)
    with pytest.raises(InvalidParameterError, match="labels must be among the classes given first"):
        other.partial_fit(cut(X, 3), cut(np.where(labels == "low", "none", labels), 3))
    with pytest.raises(InvalidParameterError, match="columns must be those of the first rows"):
        other.partial_fit(cut(X[:, :2], 3), cut(labels, 3))


def test_passes_are_shown_and_recorded(rows, in_memory, here, tmp_path, capsys):
    X, y, _, _ = rows
    journal = tmp_path / "passes"
    model = named_regressor(verbose=True, memory=10**8, checkpoint=journal).fit(cut(X, 4), cut(y, 4))
    assert "output weights" in capsys.readouterr().err
    assert not journal.exists()
    assert_allclose(model.predict(X), in_memory["shared"].predict(X), rtol=0, atol=1e-8)


@pytest.mark.slow
def test_processes_of_their_own_will_do(rows, in_memory):
    X, y, _, _ = rows
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn) as pool, dask.config.set(scheduler="processes", pool=pool):
        model = named_regressor().fit(cut(X, 3), cut(y, 3))
    assert_allclose(model.predict(X), in_memory["shared"].predict(X), rtol=0, atol=1e-8)


# Rows


def opened(values, y, weight=None, n_parts=7, **settings):
    weights = None if weight is None else cut(weight, n_parts)
    return open_collection(cut(values, n_parts), cut(y, n_parts), weights, **settings).source


def test_a_sample_has_the_rows_that_the_same_generator_draws_from_an_array(rows, here):
    X, y, _, weight = rows
    source, array = opened(X, y, weight), ArraySource(X, y[:, None], weight)
    for n_rows in (1, 50, 1199, 1200, 5000):
        one, other = (s.sample(n_rows, np.random.default_rng(3)) for s in (array, source))
        assert isinstance(other, ArraySource)
        for part in ("X", "y", "weight"):
            assert_array_equal(getattr(other, part), getattr(one, part))


@pytest.mark.parametrize("block_rows", [10, 100, 2048])
def test_blocks_in_order_are_all_rows(block_rows, rows, here):
    X, y, _, _ = rows
    source = opened(X, y).with_rows(block_rows)
    assert (source.n_samples, source.n_features, source.n_outputs) == (N, 3, 1)
    assert_array_equal(np.vstack([source[i].X for i in range(len(source))]), X)
    assert_array_equal(np.concatenate([source[i].y[:, 0] for i in range(len(source))]), y)
    with pytest.raises(IndexError):
        source[len(source)]


def test_sums_and_maps_are_those_of_threads(rows, here):
    X, y, _, _ = rows
    source = opened(X, y).with_rows(64)
    view = StandardisedTargets(source, np.array([5.0]), np.array([2.0]))
    with executor_for(view, 2) as executor, ThreadExecutor(2) as threads:
        assert isinstance(executor, DaskExecutor)
        assert (executor.n_workers, executor.limited(1).n_workers) == (2, 1)

        def products(block: Block, scratch: Scratch):
            return block.X.T @ block.y

        assert_allclose(executor.reduce(view, products), threads.reduce(view, products), rtol=1e-12)
        sums = executor.map(view, lambda block: block.y.sum())
        assert len(sums) == len(view)
        assert_allclose([sums[i] for i in range(len(sums))], threads.map(view, lambda block: block.y.sum()))
        both = Pairs(view, sums)
        gaps = executor.reduce(both, lambda pair, scratch: np.array([pair[0].y.sum() - pair[1]]))
        assert gaps[0] == 0
        assert executor.reduce([1, 2, 3], lambda item, scratch: np.array([item]))[0] == 6
        assert executor.map([1, 2], str) == ["1", "2"]
        assert executor.fold(3, 1, lambda state, step: 10 * state + step) == 1012
    assert parts_of(ArraySource(X, y[:, None])) is None
    assert isinstance(executor_for(ArraySource(X, y[:, None]), 1), ThreadExecutor)


def test_a_total_is_added_in_the_same_order_by_any_scheduler(rows):
    X, y, _, _ = rows
    totals = []
    for scheduler in ("sync", "threads"):
        with dask.config.set(scheduler=scheduler):
            source = opened(X * 1e3, y, n_parts=23)
            with executor_for(source, 1) as executor:
                totals.append(executor.reduce(source, lambda block, scratch: block.X.sum(axis=0)))
    assert_array_equal(totals[0], totals[1])


def test_partial_sums_that_are_added_stay_as_they_are(here):
    kept = [np.ones(2), np.ones(2), np.ones(2)]
    source = DaskSource(Cluster.current(), [], [], 1, 1, np.dtype(float), lambda value: value)
    assert source.n_samples == len(source) == 0
    assert_array_equal(_add(kept), [3, 3])
    assert_array_equal(kept, np.ones((3, 2)))


def test_only_dask_collections_are_taken_for_such(rows):
    X = rows[0]
    assert is_collection(cut(X, 2))
    assert not any(is_collection(other) for other in (X, "x.parquet", None, pd.DataFrame(X), dask.delayed(X)))


# Lazy answers


def test_answers_are_lazy_and_cut_as_the_rows_are(rows, in_memory, here):
    X = rows[0]
    model, classifier = in_memory["shared"], in_memory["classifier"]
    lazy = cut(X, 7, columns=2)
    assert model.predict(lazy).chunks == (lazy.chunks[0],)
    assert_array_equal(model.predict(lazy).compute(), model.predict(X))
    mean, std = model.predict(lazy, return_std=True)
    assert_allclose(std.compute(), model.predict(X, return_std=True)[1])
    assert mean.shape == std.shape == (N,)
    for method in ("predict_proba", "predict_log_proba", "decision_function"):
        answer = getattr(classifier, method)(lazy)
        assert isinstance(answer, da.Array)
        assert answer.shape == (N, 3)
        assert_allclose(answer.compute(), getattr(classifier, method)(X), rtol=1e-12)
    assert_array_equal(classifier.predict(lazy).compute(), classifier.predict(X))


def test_nothing_is_computed_before_it_is_asked_for(rows, in_memory):
    asked = []

    def made(part):
        asked.append(len(part))
        return part

    lazy = cut(rows[0], 3).map_blocks(made, meta=np.empty((0, 0)))
    answer = in_memory["shared"].predict(lazy)
    assert asked == []
    assert_array_equal(answer.compute(scheduler="sync"), in_memory["shared"].predict(rows[0]))
    assert sum(asked) == N


@pytest.mark.slow
def test_a_partition_without_rows_has_no_answers(rows, in_memory, here):
    X, y, _, _ = rows
    gaps = da.concatenate([cut(X[:500], 2), da.zeros((0, 3)), cut(X[500:], 3)])
    targets = da.concatenate([cut(y[:500], 2), da.zeros(0), cut(y[500:], 3)])
    model = named_regressor().fit(gaps, targets)
    assert_allclose(model.predict(gaps).compute(), in_memory["shared"].predict(X), rtol=0, atol=1e-8)
    table = dd.from_pandas(pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=y), npartitions=6, sort=False)
    some = table[table["a"] > 1.9]
    fitted = named_regressor().fit(some[["a", "b", "c"]], some["y"])
    assert fitted.predict(some[["a", "b", "c"]]).compute().shape == ((X[:, 0] > 1.9).sum(),)


def test_rows_of_unknown_number_are_counted_first(rows, in_memory, here):
    X, y, _, _ = rows
    table = dd.from_pandas(pd.DataFrame(X).assign(y=y), npartitions=4)
    unknown, targets = table[[0, 1, 2]].to_dask_array(), table["y"].to_dask_array()
    assert np.isnan(unknown.shape[0])
    model = named_regressor().fit(unknown, targets)
    assert_allclose(model.predict(X), in_memory["shared"].predict(X), rtol=0, atol=1e-8)
    assert np.isnan(unknown.shape[0])


# What is refused


def refusal(model, *given) -> str:
    before = set(vars(model))
    with pytest.raises(ValueError) as caught:  # noqa: PT011 -- the message is returned
        model.fit(*given)
    assert set(vars(model)) == before
    return str(caught.value)


def test_collections_that_cannot_be_matched_are_refused(rows, here):
    X, y, _, _ = rows
    model = named_regressor()
    assert "y must be a Dask collection where X is one" in refusal(model, cut(X, 3), y)
    assert "same number of rows" in refusal(model, cut(X, 3), cut(y[:-1], 3))
    assert "two dimensions" in refusal(model, cut(y, 3), cut(y, 3))
    assert "one dimension" in refusal(model, cut(X, 3), cut(y, 3), cut(X, 3))
    table = dd.from_pandas(pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=y), npartitions=4)
    assert "same number of partitions" in refusal(model, table[["a", "b", "c"]], cut(y, 5))
    assert "same number of rows in every partition: partition" in refusal(
        model, table[["a", "b", "c"]], da.from_array(y, chunks=((290, 310, 300, 300),))
    )
    named = table.assign(city=table["a"].astype(str))
    assert "every column of X must be numeric; got ['city']" in refusal(model, named[["a", "city"]], table["y"])


@pytest.mark.parametrize("odd", [np.nan, np.inf])
def test_numbers_that_are_none_are_refused_with_their_partition(odd, rows, here):
    X, y, _, weight = (values.copy() for values in rows)
    X[900, 1] = odd
    assert "finite number: partition 2, column 1" in refusal(named_regressor(), cut(X, 3), cut(y, 3))
    table = dd.from_pandas(pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=y), npartitions=3)
    assert "partition 2, column 'b'" in refusal(named_regressor(), table[["a", "b", "c"]], table["y"])
    y[300] = odd
    assert "partition 0, column 'y'" in refusal(named_regressor(), cut(rows[0], 3), cut(y, 3))
    weight[500] = odd
    assert "sample_weight must be finite numbers, at least zero: partition 1" in refusal(
        named_regressor(), cut(rows[0], 3), cut(rows[1], 3), cut(weight, 3)
    )


def test_targets_and_weights_that_cannot_be_used_are_refused(rows, here):
    X, y, labels, weight = rows
    assert "positive entry" in refusal(named_regressor(), cut(X, 3), cut(y, 3), cut(0 * weight, 3))
    assert "the sum of the weights" in refusal(named_regressor(), cut(X, 3), cut(y, 3), cut(0 * weight + 1e306, 3))
    assert "counts must not be negative" in refusal(named_regressor(loss="poisson"), cut(X, 3), cut(y - 6, 3))
    classifier = RFLAFClassifier(5, **PAPER)
    assert "at least two classes" in refusal(classifier, cut(X, 3), cut(labels[:1].repeat(N), 3))
    assert "one label a row" in refusal(classifier, cut(X, 3), cut(X[:, :2], 3))
    assert "continuous" in refusal(classifier, cut(X, 3), cut(y, 3))
    assert "at least 2 rows" in refusal(named_regressor(), da.zeros((0, 3)), da.zeros(0))
    with pytest.raises(ValueError, match="expecting 3 features"):
        named_regressor().fit(X, y).predict(cut(X[:, :2], 3))


# A cluster of processes


@pytest.mark.slow
def test_workers_sum_where_the_rows_live(rows, in_memory, client):
    X, y, labels, _ = rows
    lazy, targets = (cut(values, 7).persist() for values in (X, y))
    model = named_regressor().fit(lazy, targets)
    assert_allclose(model.predict(lazy).compute(), in_memory["shared"].predict(X), rtol=0, atol=1e-8)
    settings = {**PAPER, "random_state": 0, "alpha": 1e-4}
    classes = RFLAFClassifier(6, **settings).fit(lazy, cut(labels == "low", 7).persist())
    one = RFLAFClassifier(6, **settings).fit(X, labels == "low")
    assert_allclose(classes.predict_proba(lazy).compute(), one.predict_proba(X), rtol=0, atol=1e-6)
    table = dd.from_pandas(pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=y), npartitions=5).persist()
    framed = named_regressor("per component").fit(table[["a", "b", "c"]], table["y"])
    assert_allclose(framed.predict(table[["a", "b", "c"]]), in_memory["per component"].predict(X), atol=1e-6)


@pytest.mark.slow
def test_row_groups_are_read_by_the_workers(rows, in_memory, client, tmp_path):
    X, y, _, weight = rows
    table = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=y, w=weight)
    table.to_parquet(tmp_path / "rows.parquet", row_group_size=170)
    readers = []

    def fitted(name, **others):
        before = len(readers)
        model = named_regressor(name, **others).fit(tmp_path / "rows.parquet", "y", "w")
        assert len(readers) > before
        return model.predict(table[["a", "b", "c"]])

    with pytest.MonkeyPatch.context() as patch:
        compute = Cluster.compute
        patch.setattr(Cluster, "compute", lambda *given: readers.append(1) or compute(*given))
        patch.setattr("rflaf.rows.files.parquet_rows._PART_ROWS", 300)
        assert_allclose(fitted("shared"), in_memory["weighted"].predict(X), rtol=0, atol=1e-8)
        fading, expected = (named_regressor().fit(X, y, weight) for _ in range(2))
        fading.partial_fit(tmp_path / "rows.parquet", "y", "w", half_life=300)
        expected.partial_fit(X, y, weight, half_life=300)
        assert_allclose(fading.predict(X), expected.predict(X), rtol=0, atol=1e-8)
        few = {"max_iter": 3, "memory": 10**7}
        with pytest.warns(ConvergenceWarning):
            streamed = fitted("huber", **few)
    with pytest.warns(ConvergenceWarning):
        here = named_regressor("huber", **few).fit(X, y, weight)
    assert_allclose(streamed, here.predict(X), rtol=0, atol=1e-6)


@pytest.mark.slow
def test_a_worker_that_is_killed_does_not_change_the_model(rows, client):
    X, y, _, _ = rows

    def slowly(part):
        time.sleep(0.03)
        return part

    with dask.config.set(scheduler="sync"):
        undisturbed = named_regressor().fit(cut(X, 10), cut(y, 10))
    pid = next(iter(client.run(os.getpid).values()))
    killed = threading.Timer(
        0.2, os.kill, (pid, getattr(signal, "SIGKILL", signal.SIGTERM))
    )  # Windows has one way to end
    killed.start()
    model = named_regressor().fit(cut(X, 10).map_blocks(slowly, meta=np.empty((0, 0))), cut(y, 10).persist())
    killed.join()
    assert pid not in client.run(os.getpid).values()
    assert_array_equal(model.output_weights_, undisturbed.output_weights_)
    assert_array_equal(model.directions_, undisturbed.directions_)


@pytest.mark.parametrize("lost", ["client", "scheduler"])
def test_a_cluster_that_is_lost_is_told_and_leaves_the_estimator_as_it_was(lost, rows):
    X, y, _, _ = rows
    model = named_regressor().fit(X[:300], y[:300])
    before, state = model.predict(X), pickle.dumps(model)

    def slowly(part):
        time.sleep(0.2)
        return part

    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, dashboard_address=":0", processes=False, silence_logs="CRITICAL"
    ) as cluster:
        client = distributed.Client(cluster)
        lazy = cut(X, 12).map_blocks(slowly, meta=np.empty((0, 0)))
        ending = threading.Timer(0.5, client.close if lost == "client" else cluster.close)
        ending.start()
        with pytest.raises(ClusterError, match="the cluster was lost"):
            model.fit(lazy, cut(y, 12))
        ending.join()
        client.close()
        assert_array_equal(model.predict(X), before)
        assert pickle.dumps(model) == state
        with pytest.raises(ClusterError, match="its client is closed"):
            Cluster(client.get).compute({"x": 1}, ["x"])


def test_what_goes_wrong_in_a_worker_is_told_as_it_is(rows, client):
    def missing(part):
        raise FileNotFoundError("rows.bin")

    lazy = cut(rows[0], 3).map_blocks(missing, meta=np.empty((0, 0)))
    with pytest.raises(FileNotFoundError, match=r"rows\.bin"):
        named_regressor().fit(lazy, cut(rows[1], 3))
