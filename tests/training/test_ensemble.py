"""Members trained alone, and the one model they make."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.model_selection import train_test_split

from rflaf import RFLAFRegressor
from rflaf.functions._kernels import refined as kernels
from rflaf.functions.bases import BSplineBasis
from rflaf.functions.densities import Gaussian
from rflaf.model.random_feature_model import Activation, RandomFeatureModel
from rflaf.model.ridge import Remedy
from rflaf.rows.executors import SingleThreadedBLAS, ThreadExecutor, fold_in_turn
from rflaf.training import final_fit
from rflaf.training.ridge_rule import RidgeChoice
from rflaf.training.solvers.refined import ensemble
from rflaf.training.solvers.refined.encoded_rows import RowsInMemory, encode
from rflaf.training.solvers.refined.ensemble import (
    Members,
    merge_members,
    share_out,
    start_members,
    train_alone,
    train_members,
)
from rflaf.training.solvers.refined.recipes import Recipe
from rflaf.training.solvers.refined.trainer import Shape, start_trainer

RECIPE = Recipe(1e-5, nodes=9, split=3)
SHAPE = Shape(70, BSplineBasis(10), False, Gaussian())
Chunk = tuple[kernels.Rows, np.ndarray]
each_output_count = pytest.mark.parametrize("n_outputs", [1, 2])


def some_table(n_rows: int = 400, n_outputs: int = 1) -> RowsInMemory:
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (n_rows, 3))
    y = np.stack([np.sin(X[:, 0] + o) + X[:, 1] ** 2 for o in range(n_outputs)], axis=1)
    return RowsInMemory(X, y, rng.uniform(0.5, 1.5, n_rows))


def begun(
    table: RowsInMemory, shape: Shape = SHAPE, recipe: Recipe = RECIPE, seed: int = 0
) -> tuple[Members, list[Chunk]]:
    encoding = encode(table, table.X.mean(axis=0), table.X.std(axis=0), recipe.nodes)
    rows = encoding.rows(table.X, table.y, table.weight)
    members = start_members(encoding, rows, table.X, shape, recipe, np.random.default_rng(seed), table.n_rows)
    return members, [(rows, np.arange(table.n_rows))]


def outputs(members: Members, chunks: list[Chunk]) -> list[np.ndarray]:
    return [trainer.outputs(*chunks[0]) for trainer in members.trainers]


def folded(members: Members) -> RandomFeatureModel:
    refined = merge_members(members)
    activation = Activation(members.trainers[0].shape.basis, refined.a)
    intercept = np.zeros(refined.V.shape[1])
    return RandomFeatureModel(refined.directions, activation, refined.V, intercept, refined.curves)


@given(st.integers(1, 5000), st.integers(0, 8))
def test_widths_add_up_and_fill_whole_vectors_but_for_the_last(width, split):
    widths = Recipe(1e-4, split=split).widths(width)
    assert sum(widths) == width
    assert all(part % kernels.LANE == 0 for part in widths[:-1])
    assert len(widths) == 1 or min(widths) >= kernels.LANE
    assert max(widths) - min(widths) <= 2 * kernels.LANE
    assert len(widths) <= max(1, width // 16)
    if split == 0:
        assert widths == (width,)


def test_wider_models_have_more_and_wider_members():
    sizes = [Recipe(1e-4).widths(width) for width in (30, 100, 300, 1000)]
    assert [len(widths) for widths in sizes] == [1, 2, 3, 6]
    assert all(max(few) < min(many) for few, many in pairwise(sizes[1:]))


def test_members_differ_and_those_of_one_activation_stay_together():
    parts = share_out(SHAPE, RECIPE, np.random.default_rng(0))
    assert [shape.n_components for shape, _ in parts] == list(RECIPE.widths(70))
    assert len({generator.integers(2**62) for _, generator in parts}) == len(parts) > 2
    ((shape, _),) = share_out(replace(SHAPE, shared=True), RECIPE, np.random.default_rng(0))
    assert shape.n_components == 70


@each_output_count
@pytest.mark.parametrize("nodes", [0, 9])
def test_the_model_of_all_members_is_their_mean(nodes, n_outputs):
    table = some_table(n_outputs=n_outputs)
    members, chunks = begun(table, recipe=replace(RECIPE, nodes=nodes))
    train_members(members, chunks, table.n_rows, 0.2)
    model = folded(members)
    assert model.n_components == 70
    assert (model.curves is not None) == bool(nodes)
    own = outputs(members, chunks)
    assert np.abs(own[0] - own[1]).max() > 1e-3
    np.testing.assert_allclose(model.decision(table.X), np.mean(own, axis=0), atol=1e-4)


def test_a_member_is_trained_as_if_it_were_alone():
    table = some_table()
    with SingleThreadedBLAS():
        members, chunks = begun(table)
        trace = train_members(members, chunks, table.n_rows, 0.2)
        traces = []
        for k, (shape, generator) in enumerate(share_out(SHAPE, RECIPE, np.random.default_rng(0))):
            encoding = members.trainers[k].encoding
            trainer = start_trainer(encoding, chunks[0][0], table.X, shape, RECIPE, generator, table.n_rows)
            single = Members((trainer,), (generator,), np.random.default_rng(0))
            traces.append(train_members(single, chunks, table.n_rows, 0.2))
            np.testing.assert_array_equal(outputs(single, chunks)[0], outputs(members, chunks)[k])
    np.testing.assert_allclose(np.mean(traces, axis=0), trace, rtol=1e-12)


@pytest.mark.parametrize("at_a_time", [1, 3, 1000])
def test_many_epochs_in_one_call_are_those_of_many_calls(monkeypatch, at_a_time):
    table, index = some_table(), np.arange(5, 195)
    with SingleThreadedBLAS():
        ends, traces = [], []
        for passes, with_losses in ((1, True), (at_a_time, True), (at_a_time, False)):
            monkeypatch.setattr(ensemble, "_ORDERED_ROWS", passes * index.size)
            members, chunks = begun(table)
            alone = Members(members.trainers[:1], members.generators[:1], np.random.default_rng(0))
            if with_losses:
                traces.append(train_members(alone, [(chunks[0][0], index)], index.size, 0.1))
            else:
                train_alone(alone.trainers[0], alone.generators[0], chunks[0][0], index, 0.1)
            ends.append((outputs(alone, chunks)[0], alone.generators[0].integers(2**62)))
    assert traces[0].size > 3
    np.testing.assert_array_equal(*traces)
    for values, drawn in ends[1:]:
        np.testing.assert_array_equal(values, ends[0][0])
        assert drawn == ends[0][1]


def test_members_side_by_side_end_where_they_do_in_turn():
    table = some_table()
    ends = []
    for n_workers in (1, 2, 4):
        with ThreadExecutor(n_workers) as executor:
            members, chunks = begun(table)
            train_members(members, chunks, table.n_rows, 0.2, executor.fold, executor.side_by_side)
            ends.append(outputs(members, chunks))
    np.testing.assert_array_equal(ends[0], ends[1])
    np.testing.assert_array_equal(ends[0], ends[2])


def test_training_that_is_taken_up_again_ends_where_it_would_have(monkeypatch):
    monkeypatch.setattr(ensemble, "_ORDERED_ROWS", 600)
    table = some_table()
    stages = []

    def watch(n_steps, state, advance, label):
        for step in range(n_steps):
            stages.append(state)
            state = advance(state, step)
            state = replace(state, members=tuple(map(copied, state.members)))
        return state

    def copied(progress):
        parts = {name: type(progress.moments)(*(part.copy() for part in getattr(progress, name))) for name in PARTS}
        return replace(progress, **parts)

    def go_on(n_steps, state, advance, label):
        middle = n_steps // 2
        return fold_in_turn(n_steps - middle, stages[middle], lambda before, step: advance(before, middle + step))

    with SingleThreadedBLAS():
        members, chunks = begun(table)
        whole = train_members(members, chunks, table.n_rows, 0.2, watch)
        assert len(stages) > 3
        again, _ = begun(table)
        resumed = train_members(again, chunks, table.n_rows, 0.2, go_on)
    np.testing.assert_array_equal(whole, resumed)
    np.testing.assert_array_equal(outputs(members, chunks), outputs(again, chunks))


PARTS = ("parameters", "moments", "squares")


def test_members_learn_noise_less_by_heart_than_one_wide_model():
    """The members overfit in different ways, so their mean is nearer to the truth."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (2600, 3))
    truth = np.sin(1.5 * X[:, 0]) * X[:, 1]
    table = RowsInMemory(X[:600], (truth[:600] + 0.5 * rng.standard_normal(600))[:, None], np.ones(600))
    errors = {}
    for split in (0, 3):
        members, chunks = begun(table, replace(SHAPE, n_components=96), replace(RECIPE, split=split))
        train_members(members, chunks, 600)
        off = folded(members).decision(X[600:])[:, 0] - truth[600:]
        errors[split] = np.mean(off**2)
    assert errors[3] < 0.8 * errors[0]


def test_the_estimator_keeps_the_output_weights_of_its_members():
    table = some_table(700)
    model = RFLAFRegressor(64, alpha=1e-5, random_state=0).fit(table.X, table.y[:, 0]).model_
    solved = model.last_layer.solve()
    np.testing.assert_allclose(solved.v, model.v, rtol=2e-4)  # the sums are nearly singular
    np.testing.assert_allclose(solved.intercept, model.intercept, rtol=1e-6)
    assert len(np.unique(np.round(model.v / model.v[0], 6))) == 1  # the size of a component is in its activation


def test_the_intercept_is_that_of_the_trained_weights_also_where_their_sums_are_singular(monkeypatch):
    monkeypatch.setattr(final_fit, "by_leave_one_out", lambda *_: RidgeChoice(1e-13))
    table = some_table(700)
    X, y = table.X.astype(np.float32), table.y[:, 0] + 5
    model = RFLAFRegressor(64, alpha=1e-5, curves=False, random_state=0).fit(X, y)
    assert model.solver_remedy_ is not Remedy.NONE
    assert np.abs(model.model_.last_layer.solve().v - model.model_.v).max() > 1e-3
    assert abs(np.mean(model.predict(X) - y)) < 1e-4


@pytest.mark.slow
def test_a_start_that_loses_a_direction_is_trained_again():
    """Under this penalty every other start on these rows ends at .57 of the variance, the others at .46."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (6000, 4))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + (0.1 + np.abs(X[:, 2])) * rng.standard_normal(6000)
    X, _, y, _ = train_test_split(X, y, test_size=1 / 3, random_state=0)
    model = RFLAFRegressor(33, random_state=1, n_jobs=1, alpha=0.1, curves=False).fit(X, y)  # the first of it is lost
    assert np.mean((model.predict(X) - y) ** 2) < 0.48 * np.var(y)
