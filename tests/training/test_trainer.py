"""Refined models: the compiled loops against NumPy and finite differences, how rows are encoded, and the training.

The loops work in float32 on a *network*, what a row meets; its references here work in float64 and are as plain as the
formulas in the documentation. Adam moves the *parameters* the network is assembled from; the chain rule from one to the
other is written out here once more and held against finite differences of its own.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_features import activate_reference

from rflaf import RFLAFRegressor
from rflaf.functions._kernels import refined as kernels
from rflaf.functions._kernels import shapes as _shapes
from rflaf.functions._kernels.losses import HUBER, Objective
from rflaf.functions.bases import BSplineBasis, RBFBasis
from rflaf.functions.curves import no_knots
from rflaf.functions.densities import Gaussian
from rflaf.functions.losses import Huber, Poisson, Squared
from rflaf.model.random_feature_model import Activation, RandomFeatureModel
from rflaf.rows.blocks import ArraySource
from rflaf.rows.executors import SingleThreadedBLAS
from rflaf.training.solvers.refined.encoded_rows import Encoding, RowsInMemory, Streamed, encode, read
from rflaf.training.solvers.refined.ensemble import Members, train_members
from rflaf.training.solvers.refined.recipes import Recipe
from rflaf.training.solvers.refined.trainer import Shape, Trainer, start_trainer, unscaled

BASIS = BSplineBasis(10)
N_CELLS = 7
BY_BASIS = BASIS.pieces().coefficients.transpose(1, 0, 2).reshape(10, -1)
batch_gradient, adam_step = kernels.alone(kernels.batch_gradient), kernels.alone(kernels.adam_step)

each_sharing = pytest.mark.parametrize("shared", [False, True], ids=["per_component", "shared"])
each_output_count = pytest.mark.parametrize("n_outputs", [1, 3])
columns_of_each_kind = pytest.mark.parametrize(
    ("n_linear", "n_curves", "n_categories"),
    [(3, 0, 0), (0, 1, 0), (0, 2, 0), (2, 3, 0), (0, 0, 1), (2, 0, 2), (1, 2, 3)],
    ids=["straight", "a curve", "curves", "both", "a category", "without curves", "all"],
)
seeds = st.integers(0, 2**32 - 1)


# References


def node_starts(n_curves: int) -> np.ndarray:
    """Columns of 3, 4, 5, ... nodes."""
    return np.cumsum([0, *range(3, 3 + n_curves)])


def level_starts(n_curves: int, n_categories: int) -> np.ndarray:
    """Categories of 2, 3, 4, ... levels, behind the nodes."""
    return node_starts(n_curves)[-1] + np.cumsum([0, *range(2, 2 + n_categories)])


def encoded_rows(n_rows: int, n_linear: int, n_curves: int, n_outputs: int, rng, n_categories: int = 0) -> kernels.Rows:
    start, level_start = node_starts(n_curves), level_starts(n_curves, n_categories)
    levels = rng.integers(level_start[:-1], level_start[1:], (n_rows, n_categories)).astype(np.int32)
    cells = rng.integers(start[:-1], start[1:] - 1, (n_rows, n_curves)).astype(np.int32)
    fractions = rng.random((n_rows, n_curves)).astype(np.float32)
    fractions[rng.random(fractions.shape) < 0.2] = 0
    fractions[rng.random(fractions.shape) < 0.2] = 1
    x, y = (rng.standard_normal((n_rows, k)).astype(np.float32) for k in (n_linear, n_outputs))
    return kernels.Rows(x, cells, fractions, levels, y, rng.exponential(size=n_rows).astype(np.float32))


def some_network(n_linear, n_curves, width, shared, n_outputs, rng, n_categories=0) -> kernels.Network:
    """Inputs cover the cells of smooth tables and go beyond them on either side."""
    parts = (
        0.5 * rng.standard_normal((n_linear, width)),
        rng.standard_normal((level_starts(n_curves, n_categories)[-1], width)),
        rng.uniform(0, N_CELLS - 1, width),
        rng.standard_normal((1 if shared else width, 10)) @ BY_BASIS,
        rng.standard_normal((n_outputs, width)),
    )
    return kernels.Network(*(np.ascontiguousarray(part, np.float32) for part in parts))


def some_buffers(network: kernels.Network, batch: int, table_rows: int):
    """Gradient and work of a network; what the loops set is full of numbers that must go."""
    width, n_linear = network.bias.size, network.W.shape[0]
    f4 = np.float32
    gradient = kernels.Gradient(
        np.full_like(network.W, 9), np.zeros_like(network.H), np.full_like(network.bias, 9),
        np.zeros((table_rows, network.table.shape[1]), f4), np.full_like(network.V, 9),
    )  # fmt: skip
    block = (batch, width)
    shapes = [(batch, n_linear), block, block, block, (batch, network.V.shape[0]), block, *[(1, width)] * 3]
    n_tables = network.table.shape[0]
    return gradient, kernels.Work(*(np.full(shape, 9, f4) for shape in shapes), np.full((n_tables, 10), 9, f4))


def as_double(named: tuple) -> tuple:
    return type(named)(*(np.asarray(part, np.float64) for part in named))


def inputs_reference(rows, network) -> np.ndarray:
    """u = bias + x W + sum_c ((1 - f_c) H[k_c] + f_c H[k_c + 1]) + sum_c H[l_c]."""
    u = rows.x @ network.W + network.bias
    for c in range(rows.cells.shape[1]):
        k, f = rows.cells[:, c].astype(int), rows.fractions[:, c, None]
        u = u + (1 - f) * network.H[k] + f * network.H[k + 1]
    return u + sum(network.H[level.astype(int)] for level in rows.levels.T)


def outputs_reference(rows, network) -> np.ndarray:
    u = inputs_reference(rows, network)
    return activate_reference(u.T, network.table.reshape(len(network.table), -1, 4)).T @ network.V.T


def huber(r: np.ndarray, delta: float) -> np.ndarray:
    """r^2 up to delta, then the tangent of it."""
    return np.where(np.abs(r) <= delta, r**2, delta * (2 * np.abs(r) - delta) if np.isfinite(delta) else r**2)


def loss_reference(rows, network, objective: Objective) -> float:
    """1/m sum_i w_i sum_o huber(base + f - y)."""
    losses = huber(objective.base.astype(float) + outputs_reference(rows, network) - rows.y, float(objective.first[0]))
    return float(rows.weight @ losses.sum(axis=1)) / len(rows.y)


def huber_objective(delta: float, *base: float) -> Objective:
    """The Huber loss for the loops, with what is added to every output."""
    return Objective(HUBER, np.full(len(base), delta, np.float32), np.float32(0), np.array(base, np.float32))


def squared_objective(n_outputs: int) -> Objective:
    return huber_objective(np.inf, *[0.0] * n_outputs)


def finite_differences(function, value: np.ndarray, step: float) -> np.ndarray:
    """Central differences of ``function()`` in every entry of ``value``, which is moved and put back."""
    slopes = np.empty(value.shape)
    for at in np.ndindex(value.shape):
        before = value[at]
        value[at] = before + step
        high = function()
        value[at] = before - step
        slopes[at] = (high - function()) / (2 * step)
        value[at] = before
    return slopes


def taken(rows: kernels.Rows, index: np.ndarray) -> kernels.Rows:
    return kernels.Rows(*(part[index] for part in rows))


def lane_sum(gradient: kernels.Gradient, shared: bool) -> np.ndarray:
    return gradient.table.sum(axis=0, keepdims=True) if shared else gradient.table


# A mini-batch, forward and back


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.7, np.inf])
@each_output_count
@each_sharing
@columns_of_each_kind
def test_the_gradient_of_a_batch_equals_finite_differences(n_linear, n_curves, n_categories, shared, n_outputs, delta):
    objective = huber_objective(delta, *[0.4, -1.5, 0.0][:n_outputs])
    rng = np.random.default_rng(n_curves)
    rows = encoded_rows(60, n_linear, n_curves, n_outputs, rng, n_categories)
    network = some_network(n_linear, n_curves, 16, shared, n_outputs, rng, n_categories)
    index = rng.choice(60, 37, replace=False)
    gradient, work = some_buffers(network, 40, kernels.LANE if shared else 16)
    loss = batch_gradient(rows, index, network, gradient, work, objective)

    plain_rows, plain = as_double(taken(rows, index)), as_double(network)
    assert loss == pytest.approx(37 * loss_reference(plain_rows, plain, objective), rel=1e-5)
    found = gradient._replace(table=lane_sum(gradient, shared))
    for name in kernels.Network._fields:
        value = getattr(plain, name)
        expected = finite_differences(lambda: loss_reference(plain_rows, plain, objective), value, 1e-6)
        assert value.size == 0 or np.abs(expected).max() > 1e-2
        bound = 1e-4 * np.abs(expected).max(initial=0)
        np.testing.assert_allclose(getattr(found, name), expected, rtol=1e-3, atol=bound, err_msg=name)


@settings(max_examples=25)
@given(
    st.integers(1, 40), st.tuples(*[st.integers(0, 4)] * 3), st.integers(1, 6), st.booleans(), st.integers(1, 4), seeds
)
def test_along_any_direction_the_loss_rises_as_its_gradient_says(n_rows, kinds, n_vectors, shared, n_outputs, seed):
    rng, (n_linear, n_curves, n_categories) = np.random.default_rng(seed), kinds
    rows = encoded_rows(n_rows, n_linear, n_curves, n_outputs, rng, n_categories)
    network = some_network(n_linear, n_curves, 8 * n_vectors, shared, n_outputs, rng, n_categories)
    gradient, work = some_buffers(network, n_rows, kernels.LANE if shared else 8 * n_vectors)
    objective = huber_objective(np.inf, *rng.standard_normal(n_outputs))
    batch_gradient(rows, np.arange(n_rows), network, gradient, work, objective)
    found = gradient._replace(table=lane_sum(gradient, shared))

    coefficients = rng.standard_normal((len(network.table), 10))  # a direction in which tables stay smooth
    direction = [rng.standard_normal(part.shape) for part in network]
    direction[3] = coefficients @ BY_BASIS
    plain_rows, plain = as_double(rows), as_double(network)

    def along(step: float) -> float:
        moved = (part + step * way for part, way in zip(plain, direction, strict=True))
        return loss_reference(plain_rows, kernels.Network(*moved), objective)

    parts = [float(np.sum(part * way)) for part, way in zip(found, direction, strict=True)]
    sizes = [np.linalg.norm(part) * np.linalg.norm(way) for part, way in zip(found, direction, strict=True)]
    assert sum(parts) == pytest.approx((along(1e-6) - along(-1e-6)) / 2e-6, abs=1e-4 * sum(sizes) + 1e-6)


def test_nodes_and_tables_are_added_to_and_the_rest_is_set():
    rng = np.random.default_rng(0)
    rows, network = encoded_rows(30, 2, 2, 2, rng), some_network(2, 2, 8, False, 2, rng)
    gradient, work = some_buffers(network, 30, 8)
    index = np.arange(30)
    first = batch_gradient(rows, index, network, gradient, work, squared_objective(2))
    once = [part.copy() for part in gradient]
    assert batch_gradient(rows, index, network, gradient, work, squared_objective(2)) == first
    for name, part, before in zip(gradient._fields, gradient, once, strict=True):
        twice = name in ("H", "table")
        np.testing.assert_allclose(part, 2 * before if twice else before, rtol=1e-5, atol=1e-5, err_msg=name)


def test_rows_beyond_the_tables_have_no_slope():
    rng = np.random.default_rng(0)
    rows, network = encoded_rows(20, 2, 0, 1, rng), some_network(2, 0, 8, False, 1, rng)
    network.bias[:4], network.bias[4:] = -50, 50
    gradient, work = some_buffers(network, 20, 8)
    batch_gradient(rows, np.arange(20), network, gradient, work, squared_objective(1))
    np.testing.assert_array_equal(gradient.W, 0)
    np.testing.assert_array_equal(gradient.bias, 0)
    moments = gradient.table.reshape(8, N_CELLS, 4)
    assert np.all(np.abs(moments[:4, 0]).max(axis=1) > 0.01)
    assert np.all(np.abs(moments[4:, -1]).max(axis=1) > 0.01)
    np.testing.assert_array_equal(moments[:4, 1:], 0)
    np.testing.assert_array_equal(moments[4:, :-1], 0)


def test_a_row_of_weight_zero_pulls_at_nothing():
    rng = np.random.default_rng(0)
    rows, network = encoded_rows(20, 2, 2, 1, rng), some_network(2, 2, 8, False, 1, rng)
    rows.weight[::2] = 0
    gradient, work = some_buffers(network, 20, 8)
    assert batch_gradient(rows, np.arange(0, 20, 2), network, gradient, work, squared_objective(1)) == 0
    for part in gradient:
        np.testing.assert_array_equal(part, 0)


def test_beyond_delta_the_pull_of_a_residual_no_longer_grows():
    rng = np.random.default_rng(0)
    rows, network = encoded_rows(20, 2, 0, 1, rng), some_network(2, 0, 8, False, 1, rng)
    pulls = []
    for far in (1e3, 1e5):
        rows.y[:] = far
        gradient, work = some_buffers(network, 20, 8)
        batch_gradient(rows, np.arange(20), network, gradient, work, huber_objective(2, 0))
        pulls.append(gradient)
    for name, near, far in zip(pulls[0]._fields, *pulls, strict=True):
        np.testing.assert_array_equal(near, far, err_msg=name)
    z = activate_reference(inputs_reference(*map(as_double, (rows, network))).T, network.table.reshape(8, -1, 4))
    expected = -2 * 2 * (z @ rows.weight) / 20
    np.testing.assert_allclose(pulls[0].V[0], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("n_rows", [0, 1, 31, 32, 33, 100])
@each_sharing
@columns_of_each_kind
def test_outputs_equal_their_reference_for_any_number_of_rows(n_linear, n_curves, n_categories, shared, n_rows):
    rng = np.random.default_rng(n_rows)
    rows = encoded_rows(120, n_linear, n_curves, 2, rng, n_categories)
    network = some_network(n_linear, n_curves, 40, shared, 2, rng, n_categories)
    _, work = some_buffers(network, 32, 8)
    index = rng.permutation(120)[:n_rows]
    out = np.full((n_rows, 2), np.nan, np.float32)
    kernels.outputs(rows, index, network, work, out)
    expected = outputs_reference(as_double(taken(rows, index)), as_double(network))
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-4)


def test_the_threads_of_blas_do_not_matter():
    rng = np.random.default_rng(0)
    rows, network = encoded_rows(256, 20, 2, 3, rng), some_network(20, 2, 104, False, 3, rng)
    found = []
    for hold in (True, False):
        gradient, work = some_buffers(network, 256, 104)
        if hold:
            with SingleThreadedBLAS():
                batch_gradient(rows, np.arange(256), network, gradient, work, squared_objective(3))
        else:
            batch_gradient(rows, np.arange(256), network, gradient, work, squared_objective(3))
        found.append(gradient)
    for name, held, free in zip(gradient._fields, *found, strict=True):
        np.testing.assert_allclose(held, free, rtol=1e-4, atol=1e-5 * np.abs(held).max(), err_msg=name)


# From parameters to the network, and Adam on them


def some_parameters(n_linear, n_curves, width, shared, n_outputs, rng, n_categories=0) -> kernels.Parameters:
    start, n_rows = node_starts(n_curves), level_starts(n_curves, n_categories)[-1]
    parts = (
        rng.standard_normal((n_linear + n_curves, width)), rng.standard_normal((n_rows, width)),
        rng.uniform(0, N_CELLS - 1, width), rng.standard_normal((1 if shared else width, 10)),
        rng.standard_normal((n_outputs, width)), rng.uniform(0.5, 2, n_linear + n_curves),
        rng.uniform(0.5, 2, n_curves + n_rows - start[-1]),
    )  # fmt: skip
    parameters = kernels.Parameters(*(part.astype(np.float32) for part in parts))
    parameters.ramps[start[:-1]] = 0  # no ramp leads into the first node
    return parameters


def some_nodes(n_curves: int, rng, n_categories: int = 0) -> kernels.Nodes:
    start, levels = node_starts(n_curves), level_starts(n_curves, n_categories)
    position = np.concatenate([np.zeros(0), *(np.sort(rng.uniform(-2, 2, k)) for k in np.diff(start))])
    size, centre = rng.uniform(0.3, 1, levels[-1]), rng.uniform(0, 0.5, levels[-1])
    centre[start[:-1]] = 0
    return kernels.Nodes(start.astype(np.int64), *(part.astype(np.float32) for part in (position, size, centre)))


def nodes_in_double(nodes: kernels.Nodes) -> kernels.Nodes:
    return as_double(nodes)._replace(start=nodes.start)


RATES = kernels.Rates(*map(np.float32, (0.05, 0.02, 0.01, 0.03, 0.02, 0.05, 0.03)))
ROUGHNESS = (2 * 0.01 * BASIS.penalty()).astype(np.float32)


def assemble_reference(p, nodes) -> kernels.Network:
    """Scales times weights; node values as line plus sum of ramps, each less its mean; tables as sums of the basis."""
    n_curves = len(nodes.start) - 1
    n_linear = len(p.W) - n_curves
    H, bias = np.zeros(p.ramps.shape), p.bias.copy()
    own = slice(nodes.start[-1], None)  # levels
    values = p.ramp_scale[n_curves:, None] * p.ramps[own]
    H[own] = nodes.size[own, None] * values
    bias = bias - nodes.centre[own] @ values
    for c in range(n_curves):
        own = slice(nodes.start[c], nodes.start[c + 1])
        line = nodes.position[own, None] * p.scale[n_linear + c] * p.W[n_linear + c]
        ramps = p.ramp_scale[c] * p.ramps[own]
        ramps[0] = 0
        H[own] = line + np.cumsum(nodes.size[own, None] * ramps, axis=0)
        bias = bias - nodes.centre[own] @ ramps
    return kernels.Network(p.scale[:n_linear, None] * p.W[:n_linear], H, bias, p.C @ BY_BASIS, p.V)


def penalty_reference(p, rates, roughness) -> float:
    alpha, beta = float(rates.alpha), float(rates.scale_alpha)
    shrunk = alpha * (np.sum(p.W**2) + np.sum(p.ramps**2)) + beta * (np.sum(p.scale**2) + np.sum(p.ramp_scale**2))
    return float(shrunk + np.einsum("mi,ij,mj->", p.C, np.asarray(roughness, float), p.C) / 2)


def slopes_reference(p, nodes, gradient, rates, roughness) -> kernels.Parameters:
    """The chain rule from the derivatives in the network to those in the parameters, penalties included."""
    n_curves = len(nodes.start) - 1
    n_linear = len(p.W) - n_curves
    line = np.zeros_like(p.W)  # derivatives in scale times weight
    line[:n_linear] = gradient.W
    ramp = np.zeros_like(p.ramps)  # derivatives in scale times ramp
    ramp_scale = np.zeros_like(p.ramp_scale)
    own = slice(nodes.start[-1], None)  # levels
    ramp[own] = nodes.size[own, None] * gradient.H[own] - nodes.centre[own, None] * gradient.bias
    ramp_scale[n_curves:] = np.sum(ramp[own] * p.ramps[own], axis=1)
    ramp[own] *= p.ramp_scale[n_curves:, None]
    for c in range(n_curves):
        own = slice(nodes.start[c], nodes.start[c + 1])
        line[n_linear + c] = nodes.position[own] @ gradient.H[own]
        above = np.cumsum(gradient.H[own][::-1], axis=0)[::-1]
        ramp[own] = nodes.size[own, None] * above - nodes.centre[own, None] * gradient.bias
        ramp[nodes.start[c]] = 0
        ramp_scale[c] = np.sum(ramp[own] * p.ramps[own])
        ramp[own] *= p.ramp_scale[c]
    alpha, beta = float(rates.alpha), float(rates.scale_alpha)
    return kernels.Parameters(
        p.scale[:, None] * line + 2 * alpha * p.W,
        ramp + 2 * alpha * p.ramps,
        gradient.bias,
        gradient.table @ BY_BASIS.T + p.C @ np.asarray(roughness, float),
        gradient.V,
        np.sum(line * p.W, axis=1) + 2 * beta * p.scale,
        ramp_scale + 2 * beta * p.ramp_scale,
    )


def adam_reference(p, moments, squares, slopes, rates, step: int, schedule: float):
    """Kingma and Ba's step with beta = (0.9, 1 - rates.fresh) on every parameter, each at its own rate."""
    by_name = {"ramps": rates.W, "bias": rates.W, "ramp_scale": rates.scale}
    values = []
    for name, value, m, s, g in zip(p._fields, p, moments, squares, slopes, strict=True):
        m[...] = 0.9 * m + 0.1 * g
        s[...] = (1 - rates.fresh) * s + rates.fresh * g**2
        rate = float(by_name.get(name, getattr(rates, name, 0)))
        values.append(
            value - schedule * rate * (m / (1 - 0.9**step)) / (np.sqrt(s / (1 - (1 - rates.fresh) ** step)) + 1e-8)
        )
    return kernels.Parameters(*values)


@pytest.mark.parametrize("width", [8, 16, 24])
@columns_of_each_kind
@each_sharing
def test_a_network_is_assembled_from_its_parameters(n_linear, n_curves, n_categories, shared, width):
    rng = np.random.default_rng(0)
    parameters = some_parameters(n_linear, n_curves, width, shared, 2, rng, n_categories)
    nodes = some_nodes(n_curves, rng, n_categories)
    network = kernels.Network(
        *(np.full_like(part, 9) for part in some_network(n_linear, n_curves, width, shared, 2, rng, n_categories)),
    )
    kernels.alone(kernels.assemble)(parameters, nodes, BY_BASIS.astype(np.float32), network)
    expected = assemble_reference(as_double(parameters), nodes_in_double(nodes))
    for name, found, part in zip(network._fields, network, expected, strict=True):
        np.testing.assert_allclose(found, part, rtol=1e-5, atol=1e-5, err_msg=name)


@columns_of_each_kind
def test_the_chain_rule_of_the_reference_equals_finite_differences(n_linear, n_curves, n_categories):
    rng = np.random.default_rng(0)
    p = as_double(some_parameters(n_linear, n_curves, 8, False, 2, rng, n_categories))
    nodes = some_nodes(n_curves, rng, n_categories)
    g = [rng.standard_normal(part.shape) for part in assemble_reference(p, nodes)]

    def objective() -> float:
        network = assemble_reference(p, nodes)
        return sum(float(np.sum(a * b)) for a, b in zip(g, network, strict=True)) + penalty_reference(
            p, RATES, ROUGHNESS
        )

    slopes = slopes_reference(p, nodes, kernels.Gradient(*g), RATES, ROUGHNESS)
    for name, value, slope in zip(p._fields, p, slopes, strict=True):
        expected = finite_differences(objective, value, 1e-4)
        np.testing.assert_allclose(slope, expected, rtol=1e-6, atol=1e-6, err_msg=name)


@each_output_count
@each_sharing
@columns_of_each_kind
def test_steps_of_adam_equal_plain_adam_on_the_parameters(n_linear, n_curves, n_categories, shared, n_outputs):
    rng = np.random.default_rng(n_curves)
    width, n_tables = 16, 1 if shared else 16
    parameters = some_parameters(n_linear, n_curves, width, shared, n_outputs, rng, n_categories)
    nodes = some_nodes(n_curves, rng, n_categories)
    network = some_network(n_linear, n_curves, width, shared, n_outputs, rng, n_categories)
    moments, squares, slopes = (kernels.Parameters(*map(np.zeros_like, parameters)) for _ in range(3))
    _, work = some_buffers(network, 4, n_tables)
    plain, plain_nodes = as_double(parameters), nodes_in_double(nodes)
    m, s = (kernels.Parameters(*map(np.zeros_like, plain)) for _ in range(2))
    gradient, _ = some_buffers(network, 4, kernels.LANE if shared else width)
    for step in range(1, 6):
        for part in gradient:
            part[...] = rng.standard_normal(part.shape)
        summed = as_double(gradient._replace(table=lane_sum(gradient, shared)))
        slope = slopes_reference(plain, plain_nodes, summed, RATES, ROUGHNESS)
        plain = adam_reference(plain, m, s, slope, RATES, step, 0.8)
        adam_step(
            parameters, moments, squares, gradient, slopes, nodes, network,
            BY_BASIS.astype(np.float32), ROUGHNESS, RATES, work, step, 0.8,
        )  # fmt: skip
        np.testing.assert_array_equal(gradient.H, 0)
        np.testing.assert_array_equal(gradient.table, 0)
        for name, found, expected in zip(plain._fields, parameters, plain, strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4, err_msg=f"{name}, step {step}")
        for name, found, expected in zip(network._fields, network, assemble_reference(plain, plain_nodes), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-3, err_msg=f"{name}, step {step}")


def test_output_weights_of_rate_zero_stay_as_they_are():
    rng = np.random.default_rng(0)
    parameters, nodes = some_parameters(2, 1, 8, False, 1, rng), some_nodes(1, rng)
    network = some_network(2, 1, 8, False, 1, rng)
    moments, squares, slopes = (kernels.Parameters(*map(np.zeros_like, parameters)) for _ in range(3))
    gradient, work = some_buffers(network, 4, 8)
    gradient.V[:] = gradient.W[:] = 1
    V, W = parameters.V.copy(), parameters.W.copy()
    rates = RATES._replace(V=np.float32(0))
    by_basis = BY_BASIS.astype(np.float32)
    adam_step(parameters, moments, squares, gradient, slopes, nodes, network, by_basis, ROUGHNESS, rates, work, 1, 1.0)
    np.testing.assert_array_equal(parameters.V, V)
    assert np.all(parameters.W[:2] != W[:2])


# Data to encode and to train on


def mixed_columns(n_rows: int = 500, seed: int = 0) -> np.ndarray:
    """Columns far from the origin: continuous, of two values, of six, constant, and mostly one value."""
    rng = np.random.default_rng(seed)
    return np.column_stack(
        [
            5 + 2 * rng.standard_normal(n_rows),
            np.where(rng.random(n_rows) < 0.3, 7.0, -1.0),
            rng.integers(0, 6, n_rows) - 30.0,
            np.full(n_rows, 3.0),
            np.where(rng.random(n_rows) < 0.5, 0.25, rng.exponential(size=n_rows)),
        ]
    )


def some_table(n_rows: int = 500, n_outputs: int = 1, seed: int = 0, weighted: bool = False) -> RowsInMemory:
    X, rng = mixed_columns(n_rows, seed), np.random.default_rng(seed + 1)
    y = np.column_stack([np.sin(X[:, 0]), X[:, 2] / 3 + 9, X[:, 1] * X[:, 4] / 9])[:, :n_outputs]
    weight = rng.exponential(size=n_rows) if weighted else np.ones(n_rows)
    return RowsInMemory(X, y, weight / weight.mean())


def encoded(table: RowsInMemory, nodes: int) -> Encoding:
    return encode(table, table.X.mean(axis=0), table.X.std(axis=0), nodes)


def alone(trainer: Trainer, rng: np.random.Generator) -> Members:
    return Members((trainer,), (rng,), np.random.default_rng(0))


def trained(
    table: RowsInMemory,
    nodes: int = 33,
    width: int = 16,
    shared: bool = False,
    effort: float = 0.2,
    seed: int = 0,
    alpha: float = 1e-5,
    basis=None,
    **shape,
) -> tuple[Trainer, kernels.Rows, np.ndarray]:
    encoding, rng = encoded(table, nodes), np.random.default_rng(seed)
    rows = encoding.rows(table.X, table.y, table.weight)
    what = Shape(width, BSplineBasis(16) if basis is None else basis, shared, Gaussian(), **shape)
    trainer = start_trainer(encoding, rows, table.X, what, Recipe(alpha, nodes=nodes), rng, table.n_rows)
    trace = train_members(alone(trainer, rng), [(rows, np.arange(table.n_rows))], table.n_rows, effort)
    return trainer, rows, trace


# Encoding


def test_straight_columns_are_standardised_and_bent_ones_become_cells():
    table = some_table()
    encoding = encoded(table, 33)
    np.testing.assert_array_equal(encoding.linear, [1])
    np.testing.assert_array_equal(encoding.knots.columns, [0, 2, 4])
    np.testing.assert_array_equal(encoding.columns, [1, 0, 2, 4])
    rows = encoding.rows(table.X, table.y, table.weight)
    np.testing.assert_allclose(rows.x[:, 0], (table.X[:, 1] - table.X[:, 1].mean()) / table.X[:, 1].std(), rtol=1e-6)
    nodes = encoding.knots.nodes
    k, f = rows.cells, rows.fractions.astype(float)
    assert (rows.x.dtype, k.dtype, rows.fractions.dtype, rows.y.dtype) == (np.float32, np.int32, np.float32, np.float32)
    np.testing.assert_allclose((1 - f) * nodes[k] + f * nodes[k + 1], table.X[:, [0, 2, 4]], rtol=1e-6, atol=1e-6)
    assert np.all(k >= encoding.knots.start[:-1])
    assert np.all(k < encoding.knots.start[1:] - 1)


def test_without_nodes_every_column_is_straight():
    table = some_table()
    encoding = encoded(table, 0)
    assert encoding.knots.n_curves == 0
    np.testing.assert_array_equal(encoding.columns, [0, 1, 2, 4])
    rows = encoding.rows(table.X, table.y, table.weight)
    assert rows.cells.shape == rows.fractions.shape == (500, 0)
    np.testing.assert_allclose(rows.x.mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(rows.x.std(axis=0, dtype=float), 1, rtol=1e-6)


def test_rows_beyond_the_nodes_stand_on_the_last_of_them():
    table = some_table()
    encoding = encoded(table, 33)
    far = np.array([[1e9] * 5, [-1e9] * 5])
    rows = encoding.rows(far, np.zeros((2, 1)), np.ones(2))
    np.testing.assert_array_equal(rows.cells, [encoding.knots.start[1:] - 2, encoding.knots.start[:-1]])
    np.testing.assert_array_equal(rows.fractions, [[1] * 3, [0] * 3])


@pytest.mark.parametrize("nodes", [0, 9])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_columns_are_scaled_as_told_and_those_of_scale_zero_are_left_out(dtype, nodes):
    X = np.array([[0, 0, 5, 2], [0, 1, 5, 8], [3, 2, 5, 2]], dtype)
    scale = np.array([0.3, 0.5, 0.0, 0.0])
    encoding = encode(RowsInMemory(X, np.zeros((3, 1)), np.ones(3)), X.mean(axis=0), scale, nodes)
    np.testing.assert_array_equal(encoding.scale, scale)
    np.testing.assert_array_equal(encoding.linear, [0] if nodes else [0, 1])
    np.testing.assert_array_equal(encoding.knots.columns, [1] if nodes else [])
    rows = encoding.rows(X, np.zeros((3, 1)), np.ones(3))
    np.testing.assert_allclose(rows.x[:, 0], (X[:, 0] - 1) / 0.3, rtol=1e-6)


def test_a_column_constant_to_rounding_is_left_out():
    table = some_table()
    X = np.column_stack([table.X, 1 + np.finfo(float).eps * np.random.default_rng(0).integers(0, 4, 500)])
    scale = np.append(table.X.std(axis=0), 0.0)
    encoding = encode(RowsInMemory(X, table.y, table.weight), X.mean(axis=0), scale, 33)
    assert 5 not in encoding.columns


@settings(max_examples=30)
@given(st.integers(1, 60), st.integers(1, 6), st.booleans(), seeds)
def test_a_table_is_read_from_blocks_without_the_rows_of_weight_zero(n_rows, block_rows, sparse, seed):
    rng = np.random.default_rng(seed)
    X, y = rng.integers(0, 3, (n_rows, 3)).astype(float), rng.standard_normal((n_rows, 2))
    weight = rng.integers(0, 3, n_rows).astype(float)
    source = ArraySource(sp.csr_array(X) if sparse else X, y, weight, block_rows)
    table = read(source, range(len(source)), 2.0)
    used = weight > 0
    np.testing.assert_array_equal(table.X, X[used])
    np.testing.assert_array_equal(table.y, y[used])
    np.testing.assert_array_equal(table.weight, weight[used] / 2)
    assert table.n_rows == used.sum()


def test_without_weights_every_row_weighs_one():
    source = ArraySource(np.arange(10.0).reshape(5, 2), np.arange(5.0)[:, None], block_rows=2)
    table = read(source, range(1, 3), 1.0)
    np.testing.assert_array_equal(table.X, np.arange(4.0, 10).reshape(3, 2))
    np.testing.assert_array_equal(table.weight, [1, 1, 1])


def streamed(table: RowsInMemory, memory: int, block_rows: int = 32) -> Streamed:
    source = ArraySource(table.X, table.y, table.weight, block_rows)
    return Streamed(source, encoded(table, 33), 1.0, memory)


@pytest.mark.parametrize(("memory", "n_chunks"), [(1, 16), (32 * 110 * 4, 4), (32 * 110 * 5, 4), (2**31, 1)])
def test_chunks_hold_every_row_once(memory, n_chunks):
    table = some_table(weighted=True)
    chunks = streamed(table, memory)
    assert len(chunks) == n_chunks
    parts = [chunks[i] for i in range(n_chunks)]
    whole = chunks.encoding.rows(table.X, table.y, table.weight)
    for rows, index in parts:
        np.testing.assert_array_equal(index, np.arange(rows.y.shape[0]))
    for name in kernels.Rows._fields:
        joined = np.concatenate([getattr(rows, name) for rows, _ in parts])
        np.testing.assert_array_equal(joined, getattr(whole, name), err_msg=name)


def test_a_single_chunk_is_kept_and_several_are_encoded_again():
    table = some_table()
    one, many = streamed(table, 2**31), streamed(table, 1)
    assert one[0][0] is one[0][0]
    assert many[0][0] is not many[0][0]


def test_rows_of_weight_zero_are_in_no_chunk():
    table = some_table()
    table.weight[::2] = 0
    table.weight[64:96] = 0  # a chunk of its own
    chunks = streamed(table, 1)
    parts = [chunks[i] for i in range(len(chunks))]
    assert [index.size for _, index in parts[:4]] == [16, 16, 0, 16]
    assert sum(index.size for _, index in parts) == np.count_nonzero(table.weight)
    assert all(np.all(rows.weight > 0) for rows, _ in parts)


# The start of training


def test_training_starts_from_centred_projections_of_unit_spread_and_activations_zero():
    table = some_table()
    encoding = encoded(table, 33)
    rows = encoding.rows(table.X, table.y, table.weight)
    shape = Shape(11, BSplineBasis(16), False, Gaussian())
    trainer = start_trainer(encoding, rows, table.X, shape, Recipe(1e-4), np.random.default_rng(0), 500)
    np.testing.assert_array_equal(trainer.outputs(rows, np.arange(500)), 0)
    pieces = shape.basis.pieces()
    u = pieces.low + pieces.step * (inputs_reference(as_double(rows), as_double(trainer.network))[:, :11] + 0.5)
    np.testing.assert_allclose(u.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(u.std(axis=0), 1, rtol=1e-5)


@pytest.mark.parametrize(
    ("loss", "nodes", "fresh"),
    [(Squared(), 0, 0.05), (Squared(), 129, 0.05), (Squared(), 513, 0.01), (Poisson(), 33, 0.01)],
    ids=str,
)
def test_seldom_slopes_and_those_of_other_losses_are_averaged_for_longer(loss, nodes, fresh):
    trainer, *_ = trained(some_table(), nodes, effort=0.01, loss=loss)
    assert trainer.rates.fresh == np.float32(fresh)


def test_a_bandwidth_given_divides_the_directions():
    table = some_table()
    encoding = encoded(table, 0)
    rows = encoding.rows(table.X, table.y, table.weight)
    weights = []
    for bandwidth in (1.0, 4.0):
        shape = Shape(8, BSplineBasis(16), False, Gaussian(), bandwidth)
        trainer = start_trainer(encoding, rows, table.X, shape, Recipe(1e-4, nodes=0), np.random.default_rng(0), 500)
        weights.append(trainer.parameters.W)
    np.testing.assert_allclose(weights[0], 4 * weights[1], rtol=1e-6)
    assert np.abs(weights[0]).min() > 0


def test_ramps_are_centred_over_the_rows():
    """A ramp into a node is 0 before the node on its left, 1 after its own, and straight between: its mean is known."""
    table = some_table()
    encoding = encoded(table, 33)
    rows = encoding.rows(table.X, table.y, table.weight)
    shape = Shape(8, BSplineBasis(16), False, Gaussian())
    nodes = start_trainer(encoding, rows, table.X, shape, Recipe(1e-4), np.random.default_rng(0), 500).nodes
    for curve, column in enumerate(encoding.knots.columns):
        q, own = encoding.knots.of(curve), slice(encoding.knots.start[curve], encoding.knots.start[curve + 1])
        means = [np.interp(table.X[:, column], q[k - 1 : k + 1], [0, 1]).mean() for k in range(1, q.size)]
        size = min(1, 3 / np.sqrt(q.size - 1))
        np.testing.assert_allclose(nodes.size[own], size, rtol=1e-6)
        np.testing.assert_allclose(nodes.centre[own], np.append(0, size * np.array(means)), rtol=1e-5, atol=1e-6)
        standard = (q - table.X[:, column].mean()) / table.X[:, column].std()
        np.testing.assert_allclose(nodes.position[own], standard, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("n_rows", "batch"), [(1, 32), (500, 32), (4096, 32), (8192, 64), (20_000, 128), (10**7, 256)])
def test_batches_grow_with_the_rows(n_rows, batch):
    table = some_table(50)
    encoding = encoded(table, 0)
    rows = encoding.rows(table.X, table.y, table.weight)
    shape = Shape(8, BSplineBasis(16), False, Gaussian())
    recipe = Recipe(1e-4, nodes=0)
    assert start_trainer(encoding, rows, table.X, shape, recipe, np.random.default_rng(0), n_rows).batch == batch


@pytest.mark.parametrize(
    ("n_rows", "bent", "straight"), [(36_000, 15, 24), (10**9, 8, 8), (1000, 90, 100), (200, 143, 143)]
)
def test_fewer_rows_take_more_epochs(n_rows, bent, straight):
    assert Recipe(1e-4).epochs(n_rows) == bent
    assert Recipe(1e-4, nodes=0).epochs(n_rows) == straight


# Folding


def folded_model(trainer: Trainer) -> RandomFeatureModel:
    refined = unscaled(trainer)
    activation = Activation(trainer.shape.basis, refined.a)
    n_outputs = refined.V.shape[1]
    return RandomFeatureModel(refined.directions, activation, refined.V, np.zeros(n_outputs), refined.curves)


@pytest.mark.parametrize("nodes", [0, 9, 33])
@pytest.mark.parametrize("width", [1, 8, 11, 40])
@each_output_count
def test_the_folded_model_predicts_what_training_ended_with(nodes, width, n_outputs):
    table = some_table(n_outputs=n_outputs, weighted=True)
    trainer, rows, _ = trained(table, nodes, width)
    model, expected = folded_model(trainer), trainer.outputs(rows, np.arange(table.n_rows))
    assert np.ptp(expected, axis=0).min() > 0.02
    np.testing.assert_allclose(model.decision(table.X), expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(model.directions.W[3], 0)
    assert (model.curves is None) == (nodes == 0)


@pytest.mark.parametrize("nodes", [0, 33])
@pytest.mark.parametrize("width", [8, 16])
@each_output_count
def test_the_folded_model_of_a_shared_activation_predicts_what_training_ended_with(nodes, width, n_outputs):
    table = some_table(n_outputs=n_outputs)
    trainer, rows, _ = trained(table, nodes, width, shared=True)
    expected = trainer.outputs(rows, np.arange(table.n_rows))
    assert np.ptp(expected, axis=0).min() > 0.1
    np.testing.assert_allclose(folded_model(trainer).decision(table.X), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("width", [1, 11])
def test_a_shared_activation_of_a_width_that_fills_no_vector_has_no_more_components(width):
    table = some_table()
    trainer, rows, _ = trained(table, 33, width, shared=True)
    np.testing.assert_array_equal(trainer.parameters.V[:, width:], 0)
    expected = trainer.outputs(rows, np.arange(table.n_rows))
    np.testing.assert_allclose(folded_model(trainer).decision(table.X), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_the_padding_of_the_width_stays_zero(n_outputs):
    trainer, _, _ = trained(some_table(n_outputs=n_outputs), width=11)
    for name in ("W", "ramps", "bias", "V"):
        padding = getattr(trainer.parameters, name)[..., 11:]
        np.testing.assert_array_equal(padding, 0, err_msg=name)


@each_sharing
def test_a_model_in_radial_functions_folds_as_well(shared):
    table = some_table()
    trainer, rows, _ = trained(table, 33, 8, shared, basis=RBFBasis(9))
    expected = trainer.outputs(rows, np.arange(table.n_rows))
    assert np.ptp(expected) > 0.5
    np.testing.assert_allclose(folded_model(trainer).decision(table.X), expected, rtol=1e-4, atol=1e-4)


def test_columns_that_are_all_constant_fold_to_a_constant():
    table = RowsInMemory(np.full((100, 2), 3.0), np.full((100, 1), 0.5), np.ones(100))
    trainer, rows, trace = trained(table, effort=0.5)
    model = folded_model(trainer)
    np.testing.assert_array_equal(model.directions.W, 0)
    assert model.curves is None
    np.testing.assert_allclose(model.decision(table.X), trainer.outputs(rows, np.arange(100)), atol=1e-4)
    np.testing.assert_allclose(model.decision(table.X), 0.5, atol=0.02)
    assert trace[-1] < 1e-3


def test_curves_begin_at_zero_and_the_line_carries_the_rest():
    trainer, _, _ = trained(some_table())
    curves = unscaled(trainer).curves
    np.testing.assert_array_equal(curves.values[curves.knots.start[:-1]], 0)
    assert np.abs(curves.values).max() > 0.1


# Training


def easy_table(n_rows: int = 2000, n_noise: int = 0, seed: int = 0) -> RowsInMemory:
    """y = sin(3 x0) + step(x1), and columns that say nothing."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n_rows, 2 + n_noise))
    y = np.sin(3 * X[:, 0]) + (X[:, 1] > 0.2)
    return RowsInMemory(X, y[:, None] - y.mean(), np.ones(n_rows))


def test_an_easy_target_is_learned():
    table = easy_table()
    trainer, rows, trace = trained(table, effort=1.0)
    assert trace[0] > 0.1 * table.y.var()
    assert trace[-1] < 0.02 * trace[0]
    residual = trainer.outputs(rows, np.arange(table.n_rows)) - table.y
    assert np.mean(residual**2) < 0.005 * table.y.var()


def test_curves_follow_a_step_that_straight_columns_miss():
    table = easy_table()
    bent, straight = (trained(table, nodes, effort=0.5)[2][-1] for nodes in (33, 0))
    assert bent < 0.3 * straight


@pytest.mark.parametrize("nodes", [0, 33])
def test_a_shared_activation_trains(nodes):
    table = easy_table()
    _, _, trace = trained(table, nodes, shared=True, effort=1.0)
    assert trace[-1] < 0.1 * table.y.var()


@each_sharing
def test_several_outputs_train(shared):
    table = easy_table()
    y = np.column_stack([table.y[:, 0], np.cos(2 * table.X[:, 1]), table.X[:, 0] * table.X[:, 1]])
    y = (y - y.mean(axis=0)) / y.std(axis=0)
    trainer, rows, _ = trained(replace(table, y=y), shared=shared, effort=1.0)
    residual = trainer.outputs(rows, np.arange(table.n_rows)) - y
    assert np.all(np.mean(residual**2, axis=0) < 0.05)


def test_useless_columns_lose_their_scale():
    rng = np.random.default_rng(0)
    table = easy_table(2000, 10)
    table.y[:] += 0.1 * rng.standard_normal(table.y.shape)
    trainer, _, _ = trained(table, effort=1.0, alpha=1.5e-4, width=32)
    scale = np.abs(trainer.parameters.scale) + np.abs(trainer.parameters.ramp_scale)
    assert scale[2:].max() < 0.35 * scale[:2].min()
    importance = folded_model(trainer).column_importance(table.X)
    assert importance.sum() == pytest.approx(1)
    assert importance[:2].min() > 0.25
    assert importance[2:].max() < 0.03


def test_weights_are_worth_copies_of_a_row():
    """Contradictory rows: the fit settles at their weighted mean."""
    X = np.repeat([[0.0], [1.0]], 200, axis=0)
    y = np.tile([0.0, 1.0], 200)[:, None]
    weight = np.where(X[:, 0] == 0, np.tile([3.0, 1.0], 200), np.tile([1.0, 3.0], 200)) / 2
    trainer, rows, _ = trained(RowsInMemory(X, y, weight), effort=1.0, alpha=0.0)
    out = trainer.outputs(rows, np.array([0, 200]))[:, 0]
    np.testing.assert_allclose(out, [0.25, 0.75], atol=0.03)


def test_a_finite_delta_resists_wild_targets():
    table = easy_table()
    wild = table.y.copy()
    rng = np.random.default_rng(0)
    wild[rng.choice(2000, 100, replace=False)] += 30
    errors = []
    for loss in (Huber(0.5), Squared()):
        trainer, rows, _ = trained(replace(table, y=wild), effort=1.0, loss=loss)
        errors.append(np.mean((trainer.outputs(rows, np.arange(2000)) - table.y) ** 2))
    assert errors[0] < 0.05 * table.y.var()
    assert errors[0] < 0.05 * errors[1]


@each_sharing
def test_the_same_seed_gives_the_same_bits(shared):
    table = some_table(n_outputs=2)
    with SingleThreadedBLAS():
        first, second = (trained(table, shared=shared, effort=0.1, seed=3) for _ in range(2))
        other = trained(table, shared=shared, effort=0.1, seed=4)
    np.testing.assert_array_equal(first[2], second[2])
    for name, one, two in zip(kernels.Parameters._fields, first[0].parameters, second[0].parameters, strict=True):
        np.testing.assert_array_equal(one, two, err_msg=name)
    assert np.any(first[0].parameters.W != other[0].parameters.W)


def start_again(table: RowsInMemory, encoding: Encoding) -> tuple[Trainer, np.random.Generator]:
    rng = np.random.default_rng(0)
    rows = encoding.rows(table.X, table.y, table.weight)
    shape = Shape(16, BSplineBasis(16), False, Gaussian())
    return start_trainer(encoding, rows, table.X, shape, Recipe(1e-5), rng, table.n_rows), rng


@pytest.mark.slow
def test_training_from_chunks_is_deterministic_and_learns():
    table = easy_table()
    traces, parameters = [], []
    with SingleThreadedBLAS():
        for _ in range(2):
            chunks = streamed(table, 32 * 70 * 10)
            assert len(chunks) > 3
            trainer, rng = start_again(table, chunks.encoding)
            traces.append(train_members(alone(trainer, rng), chunks, table.n_rows, 0.5))
            parameters.append(trainer.parameters)
    np.testing.assert_array_equal(*traces)
    for one, two in zip(*parameters, strict=True):
        np.testing.assert_array_equal(one, two)
    assert traces[0][-1] < 0.05 * traces[0][0]


def test_one_chunk_of_a_source_trains_as_the_table_in_memory():
    table = easy_table(600)
    with SingleThreadedBLAS():
        chunks = streamed(table, 2**31)
        trainer, rng = start_again(table, chunks.encoding)
        from_source = train_members(alone(trainer, rng), chunks, table.n_rows, 0.2)
        again, rng = start_again(table, chunks.encoding)
        rows = chunks.encoding.rows(table.X, table.y, table.weight)
        in_memory = train_members(alone(again, rng), [(rows, np.arange(table.n_rows))], table.n_rows, 0.2)
    np.testing.assert_array_equal(from_source, in_memory)
    np.testing.assert_array_equal(trainer.parameters.W, again.parameters.W)


def test_a_run_is_its_batches_one_after_the_other_under_a_cosine():
    """Warming up over a twentieth of the steps, then half a cosine down to nothing."""
    table = some_table(200)
    encoding = encoded(table, 33)
    rows = encoding.rows(table.X, table.y, table.weight)
    order = np.random.default_rng(1).permutation(200)
    with SingleThreadedBLAS():
        whole, _ = start_again(table, encoding)
        (loss,) = whole.run(rows, order[None], 5, 300)
        by_hand, _ = start_again(table, encoding)
        total = 0.0
        roughness = (2e-3 * by_hand.shape.basis.penalty()).astype(np.float32)
        for number, first in enumerate(range(0, 200, by_hand.batch)):
            step, part = 6 + number, order[first : first + by_hand.batch]
            b = by_hand
            total += batch_gradient(rows, part, b.network, b.gradient, b.work, squared_objective(1))
            schedule = 0.5 * (1 + np.cos(np.pi * step / 300)) * min(1.0, step / (0.05 * 300 + 1))
            adam_step(
                b.parameters, b.moments, b.squares, b.gradient, b.slopes, b.nodes, b.network,
                b.by_basis, roughness, b.rates, b.work, step, schedule,
            )  # fmt: skip
    assert loss == total
    for name, one, two in zip(kernels.Parameters._fields, whole.parameters, by_hand.parameters, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-6, atol=1e-6, err_msg=name)
    assert np.abs(whole.parameters.C).max() > 1e-3


def test_only_the_rows_of_the_index_are_trained_on():
    table = some_table(400)
    spoilt = replace(table, y=table.y.copy())
    spoilt.y[200:] = 1e6
    trainers = []
    for each in (table, spoilt):
        trainer, rng = start_again(each, encoded(each, 33))
        rows = trainer.encoding.rows(each.X, each.y, each.weight)
        train_members(alone(trainer, rng), [(rows, np.arange(200))], 200, 0.1)
        trainers.append(trainer)
    np.testing.assert_array_equal(trainers[0].parameters.C, trainers[1].parameters.C)


@pytest.mark.slow
def test_rows_of_weight_zero_are_as_good_as_absent():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (2800, 3))
    y = np.sin(1.5 * X[:, 0]) + X[:, 1] ** 2 / 2
    noisy = y + 0.3 * rng.standard_normal(2800)
    weight = (np.arange(800) < 400).astype(float)
    error = []
    for n_rows, weights in ((800, weight), (400, None)):
        model = RFLAFRegressor(20, alpha=1e-4, curves=True, random_state=0)
        model.fit(X[:n_rows], noisy[:n_rows], sample_weight=weights)
        error.append(np.mean((model.predict(X[800:]) - y[800:]) ** 2))
    assert error[0] < 2 * error[1]


@pytest.mark.parametrize(("effort", "epochs"), [(1.0, 45), (0.5, 22), (1e-9, 1)])
def test_the_trace_has_one_mean_loss_an_epoch(effort, epochs):
    table = easy_table(4000)
    trainer, rng = start_again(table, encoded(table, 33))
    assert trainer.recipe.epochs(4000) == 45
    rows = trainer.encoding.rows(table.X, table.y, table.weight)
    trace = train_members(alone(trainer, rng), [(rows, np.arange(4000))], 4000, effort)
    assert trace.shape == (epochs,)
    assert 0.05 * table.y.var() < trace[0] < 1.5 * table.y.var()


def test_encodings_without_any_column_hold_no_cells():
    rows = Encoding(np.zeros(2), np.zeros(2), no_knots()).rows(np.ones((3, 2)), np.ones((3, 1)), np.ones(3))
    assert rows.x.shape == rows.cells.shape == rows.fractions.shape == (3, 0)


def test_a_vector_of_the_loops_is_a_vector_of_the_package():
    assert _shapes.lanes(np.float32) == kernels.LANE
