"""Simplified models: few nodes, the loss on rows held out within what is allowed."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

import rflaf
from rflaf import RFLAFClassifier, RFLAFRegressor, simplify
from rflaf.functions.curves import ColumnCurves, Knots
from rflaf.model.curved_features import compile_features
from rflaf.model.in_numpy import cells_of, slopes_of_cells
from rflaf.model.simpler_curves import rank_nodes


def rows(n_rows, seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n_rows, 3))
    return X, np.abs(X[:, 0]) + np.floor(X[:, 1]) + 0.2 * rng.standard_normal(n_rows)


@pytest.fixture(scope="module")
def fitted():
    X, y = rows(250, 0)
    return {
        "numbers": RFLAFRegressor(8, curves=True, alpha=1e-3, random_state=0).fit(X, y),
        "outputs": RFLAFRegressor(8, curves=True, alpha=1e-3, random_state=0).fit(X, np.c_[y, -y]),
        "classes": RFLAFClassifier(8, curves=True, alpha=1e-3, random_state=0).fit(X, np.digitize(y, [0, 1])),
    }


def with_nodes(model, extra):
    """The same function with ``extra`` more nodes in every gap, on the lines between the old ones."""
    knots, start, nodes, values = model.curves.knots, [0], [], []
    for curve in range(knots.n_curves):
        own, part = knots.of(curve), model.curves.values[knots.start[curve] : knots.start[curve + 1]]
        fine = np.unique(np.concatenate([np.linspace(a, b, extra + 2) for a, b in pairwise(own)]))
        nodes.append(fine)
        values.append(np.stack([np.interp(fine, own, column) for column in part.T], axis=1))
        start.append(start[-1] + fine.size)
    finer = Knots(knots.columns, np.array(start), np.concatenate(nodes))
    return replace(model, curves=ColumnCurves(finer, np.concatenate(values)))


def test_nodes_on_a_line_go_first_and_change_nothing(fitted):
    model, X = fitted["numbers"].model_, rows(300, 1)[0]
    fine = with_nodes(model, 4)
    n_more = fine.curves.knots.nodes.size - model.curves.knots.nodes.size
    assert n_more > 100
    ranked = rank_nodes(fine, X, np.random.default_rng(0))
    assert np.allclose(ranked.without(n_more).decision(X), model.decision(X), atol=1e-9)
    assert set(fine.curves.knots.nodes[ranked.order[:n_more]]).isdisjoint(model.curves.knots.nodes)


def test_no_node_left_out_is_the_same_model(fitted):
    model = fitted["numbers"].model_
    same = rank_nodes(model, rows(100, 1)[0], np.random.default_rng(0)).without(0)
    assert np.array_equal(same.curves.values, model.curves.values)


def test_the_outer_nodes_and_their_values_stay(fitted):
    model = fitted["numbers"].model_
    ranked = rank_nodes(model, rows(100, 1)[0], np.random.default_rng(0))
    least = ranked.without(ranked.order.size)
    assert np.diff(least.curves.knots.start).tolist() == [2] * model.curves.knots.n_curves
    far = np.array([[-50.0, 50.0, -50.0], [50.0, -50.0, 50.0]])
    assert np.allclose(least.decision(far), model.decision(far))


@pytest.mark.parametrize("kind", ["numbers", "outputs", "classes"])
@pytest.mark.parametrize("within", [0.001, 0.05])
def test_the_loss_rises_by_no_more_than_is_allowed(fitted, kind, within):
    model, (X, y) = fitted[kind], rows(400, 2)
    wanted = {"numbers": y[:, None], "outputs": np.c_[y, -y], "classes": np.eye(3)[np.digitize(y, [0, 1])]}[kind]
    given = {"numbers": y, "outputs": wanted, "classes": np.digitize(y, [0, 1])}[kind]
    simpler = simplify(model, X, given, within=within)
    before, after = (np.mean(model.loss_.value(m.model_.decision(X), wanted)) for m in (model, simpler))
    assert after <= before * (1 + within)
    assert simpler.curves_.values.size < model.curves_.values.size
    assert type(simpler) is type(model)


def test_a_simplified_model_is_saved_and_exported_as_any_other(fitted, tmp_path):
    X, y = rows(400, 2)
    simpler = simplify(fitted["numbers"], X, y)
    rflaf.save(simpler, tmp_path / "small.rflaf")
    rflaf.save(fitted["numbers"], tmp_path / "whole.rflaf")
    assert np.array_equal(rflaf.load(tmp_path / "small.rflaf").predict(X), simpler.predict(X))
    assert (tmp_path / "small.rflaf").stat().st_size < (tmp_path / "whole.rflaf").stat().st_size
    assert len(rflaf.to_c(simpler)) < len(rflaf.to_c(fitted["numbers"]))


@pytest.mark.slow
def test_tables_and_straight_models_are_taken():
    X, y = rows(200, 0)
    frame = pd.DataFrame(X, columns=list("abc")).assign(level=np.where(X[:, 0] > 0, "up", "down"))
    model = RFLAFRegressor(5, curves=True, alpha=1e-3, random_state=0).fit(frame, y)
    assert simplify(model, frame, y).curves_.values.size <= model.curves_.values.size
    straight = RFLAFRegressor(5, directions="random", random_state=0).fit(X, y)
    assert np.array_equal(simplify(straight, X, y).predict(X), straight.predict(X))


def test_the_slopes_are_derivatives(fitted):
    model, X = fitted["numbers"].model_, rows(50, 3)[0]
    pieces, a = model.activation.compile()
    compiled = compile_features(model.directions, model.curves, pieces, a, np.float64)
    u, table = cells_of(compiled, X), compiled.table[: compiled.width]
    u += 10 * (X[:, :1] > 1)  # some beyond the table
    step = 1e-6
    from rflaf.model.in_numpy import _cubics

    difference = (_cubics(u + step, table) - _cubics(u - step, table)) / (2 * step)
    smooth = np.abs(u - np.floor(u) - 0.5) > 1e-5
    assert np.allclose(slopes_of_cells(u, table)[smooth], difference[smooth], atol=1e-6)


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"within": -1}, "within must be a number"),
        ({"y": np.zeros(3)}, "the same number of rows"),
        ({"X": np.zeros((9, 3)), "y": np.zeros(9)}, "at least 50"),
        ({"y": np.full(60, np.nan)}, "finite numbers"),
        ({"estimator": "classes", "y": np.full(60, 7)}, "y must hold labels of"),
    ],
)
def test_what_cannot_be_simplified_is_refused(fitted, change, rule):
    given = {"estimator": "numbers", "X": np.zeros((60, 3)), "y": np.zeros(60), **change}
    model = fitted[given.pop("estimator")]
    with pytest.raises(rflaf.InvalidParameterError, match=rule):
        simplify(model, given.pop("X"), given.pop("y"), **given)
    with pytest.raises(rflaf.InvalidParameterError, match="only regressors and classifiers"):
        simplify(object(), np.zeros((60, 3)), np.zeros(60))
