"""The compiled loops against the roofs of this machine: operations and bytes per second, all in one run, one thread.

python benchmarks/loops.py [--rounds 9] [--rows 4096] [--width 96] [--out loops.json]. The roofs are measured between
the loops, in turns: BLAS (products of matrices) for operations, and x = a x + y on arrays of the size of every cache
and of memory for bytes. A loop cannot take less time than its operations at the speed of BLAS, nor than the bytes it
streams at the speed of the place they are in, nor than what it looks up: four neighbouring numbers (the cubic of a
cell) as fast as a loop can that does nothing else, whole vectors (nodes of a curve, squares of sums) at the speed of
the first-level cache. The share of the roof is the largest of these times over the time taken; where the parts wait
for each other, or for the same units, it is their sum. The summary (.json) and the table (.md) are written.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import process_time
from types import ModuleType
from typing import Any

import numpy as np
import scipy.sparse
from interleaved import medians
from llvmlite import ir
from markdown_tables import markdown_table
from numba import njit, types
from numba.extending import intrinsic
from threadpoolctl import threadpool_limits

from rflaf import RFLAFRegressor
from rflaf.functions._kernels import contributions, curvature, features, losses, network, pairs, refined
from rflaf.functions._kernels.loops import jit
from rflaf.functions._kernels.shapes import HUBER, TILE_VECTORS, lanes
from rflaf.functions._kernels.vectors import I64, LANES, address, load, shifted, store
from rflaf.functions.bases import BSplineBasis

RESULTS = Path(__file__).parent.parent / "docs" / "results" / "loops.json"
CUBIC = 6  # operations: three products and sums
PLACES = {"L1": 2**14, "L2": 2**18, "L3": 2**22, "memory": 2**27}  # bytes of the two arrays
ADAM = 14  # operations of one step on one parameter, the root and the division as one each
AT_ONCE = 16  # cubics read before they are added up
HALF = 0.5
UNITS = {"BLAS": "GFlop/s", "cubics": "thousand million cubics per second"}


@dataclass(frozen=True, slots=True)
class Loop:
    """A call, and what it must do: operations, bytes streamed, cubics looked up and other bytes looked up."""

    call: Callable[[], object]
    dtype: type
    operations: float
    streamed: float
    cubics: float = 0
    looked_up: float = 0


@njit(fastmath=True)
def triad(x: Any, y: Any, a: float, times: int) -> None:
    """``x = a x + y``, so often: two reads and a write, two operations."""
    for _ in range(times):
        for i in range(x.size):
            x[i] = a * x[i] + y[i]


@intrinsic
def _add_cubics(typing: Any, table: Any, offsets: Any, at: Any, total: Any) -> Any:
    """``total[:4] += table[offset:offset+4]`` for several offsets."""
    kind = LANES[table.dtype]
    signature = types.void(table, offsets, types.int64, total)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        zero = ir.Constant(I64, 0)
        cells, target = (address(context, builder, sig.args[i], args[i], zero) for i in (0, 3))
        places = address(context, builder, sig.args[1], args[1], args[2])
        at_once = [builder.load(shifted(builder, places, i)) for i in range(AT_ONCE)]
        found = [load(builder, builder.gep(cells, [offset]), kind.quad) for offset in at_once]
        while len(found) > 1:
            found = [builder.fadd(left, right) for left, right in zip(found[::2], found[1::2], strict=True)]
        store(builder, builder.fadd(load(builder, target, kind.quad), found[0]), target)
        return context.get_dummy_value()

    return signature, generate


@jit
def look_up(table: Any, offsets: Any, total: Any, times: int) -> None:
    """Read the cubics at all offsets, so often, and nothing else."""
    for _ in range(times):
        for i in range(0, offsets.size, AT_ONCE):
            _add_cubics(table, offsets, i, total)


@jit
def forward_often(times: int, rows: Any, index: Any, net: Any, work: Any) -> None:
    """Repeat without Python, as training does."""
    for _ in range(times):
        network.forward(rows, index, net, work)


@jit
def backward_often(times: int, rows: Any, index: Any, net: Any, gradient: Any, work: Any) -> None:
    for _ in range(times):
        network.backward(rows, index, net, gradient, work)


@jit
def step_often(
    times: int, parameters: Any, moments: Any, squares: Any, gradient: Any, slopes: Any, nodes: Any, net: Any,
    by_basis: Any, roughness: Any, rates: Any, work: Any, step: int, schedule: float,
) -> None:  # fmt: skip
    for _ in range(times):
        refined.adam_step(
            parameters, moments, squares, gradient, slopes, nodes, net, by_basis, roughness, rates, work, step, schedule
        )


def roofs(size: int) -> dict[str, tuple[Callable[[], object], float]]:
    """What to time for the roofs, and the operations or bytes of a call."""
    rng, timed = np.random.default_rng(0), {}
    for dtype in (np.float32, np.float64):
        A, B = (rng.standard_normal((size, size)).astype(dtype) for _ in range(2))
        out = np.empty_like(A)
        timed[f"BLAS {np.dtype(dtype)}"] = (lambda A=A, B=B, out=out: np.matmul(A, B, out=out)), 2.0 * size**3
        table, total, offsets = np.ones(64 * 4, dtype), np.zeros(4, dtype), 4 * rng.integers(0, 64, 1024)
        run = lambda table=table, offsets=offsets, total=total: look_up(table, offsets, total, 2000)  # noqa: E731
        timed[f"cubics {np.dtype(dtype)}"] = run, 2000.0 * offsets.size
    for place, n_bytes in PLACES.items():
        x, y = np.ones((2, n_bytes // 8), np.float32)
        times = max(1, 2**26 // n_bytes)
        timed[place] = (lambda x=x, y=y, t=times: triad(x, y, np.float32(0.5), t)), 12.0 * x.size * times
    return timed


def place_of(n_bytes: float) -> str:
    """Where so many bytes stay."""
    return next((place for place, size in PLACES.items() if n_bytes <= 2 * size), "memory")


def of_features(n: int, S: int, d: int, dtype: type) -> dict[str, Loop]:
    """Loops over projections (S, n): look up, scatter, contract, expand, products of pairs, curvature, losses."""
    rng, item = np.random.default_rng(0), np.dtype(dtype).itemsize
    basis = BSplineBasis(16)
    pieces = basis.pieces()
    N, K = basis.n_basis, pieces.n_cells
    (first, last), cubics = pieces.alive(), np.ascontiguousarray(pieces.coefficients, dtype)
    u = rng.uniform(0, K - 1, (S, n)).astype(dtype)
    table = rng.standard_normal((S, K, 4)).astype(dtype)
    v, residual = rng.standard_normal((S, 1)).astype(dtype), rng.standard_normal((1, n)).astype(dtype)
    z, H, sums = np.empty_like(u), np.zeros((N, n), dtype), np.zeros((S, K, 4))
    few, wide = min(n, 256), np.empty((S, N, min(n, 256)), dtype)
    some = np.ascontiguousarray(u[:, :few])
    gram, cross = np.empty((S * (S + 1) // 2, N, N)), np.empty((S, N, 1))
    local, by_power = pieces.local(), np.ascontiguousarray(cubics.transpose(0, 2, 1))
    assert local is not None
    local, one = np.ascontiguousarray(local, dtype), np.ones(n, dtype)
    H2, C = np.zeros((1, n, N), dtype), np.zeros((1, S, N), dtype)
    objective = losses.Objective(HUBER, np.ones(1), 0.0, np.zeros(1))
    slopes, target, entries = np.zeros(S), np.ones(n), S * n
    codes, kept = indicators(n, d, dtype)
    w, bias = rng.standard_normal((S // 4, codes.shape[1], 4)).astype(dtype), np.zeros(S, dtype)
    return {
        "features.activate": Loop(
            lambda: features.activate(u, table, z), dtype, CUBIC * entries, 2 * item * entries, entries
        ),
        "features.scatter": Loop(
            lambda: features.scatter(u, v, residual, sums), dtype, 9 * entries, item * entries, 2 * entries
        ),
        "features.contract": Loop(
            lambda: features.contract(u, v[:, 0], cubics, first, last, H), dtype,
            4 * (CUBIC + 2) * entries, item * entries, 4 * entries, 8 * item * entries,
        ),
        "features.expand": Loop(
            lambda: features.expand(some, cubics, first, last, wide), dtype,
            4 * CUBIC * some.size, item * (some.size + 2 * wide.size), 4 * some.size,
        ),
        "features.project": Loop(
            lambda: features.project(codes, w, bias, z), dtype,
            2 * kept * S, item * (codes.size + entries),
        ),
        "pairs.multiply_pairs": Loop(
            lambda: pairs.multiply_pairs(u, one, residual, local, gram, cross), dtype,
            32 * S * (S + 1) / 2 * n, 4 * item * entries, 0, 40 * item * S * (S + 1) / 2 * n,
        ),
        "curvature.contract_and_scatter": Loop(
            lambda: curvature.contract_and_scatter(u, v, residual, by_power, H2, C), dtype,
            (CUBIC + 4) * N * entries, item * entries, 0, (4 + 2) * N * item * entries,
        ),
        "losses.sum_pass": Loop(
            lambda: losses.sum_pass(objective, z, target, target[:0], v[:, 0], 0.0, slopes), dtype,
            4 * entries, item * entries,
        ),
    }  # fmt: skip


def indicators(n: int, n_columns: int, dtype: type) -> tuple[np.ndarray, float]:
    """Rows of indicators, 40 levels a column, most rows in the first few; and the columns kept, summed over rows."""
    levels = np.minimum(np.random.default_rng(0).geometric(0.5, (n, n_columns)) - 1, 39)
    codes = np.zeros((n, n_columns, 40), dtype)
    np.put_along_axis(codes, levels[:, :, None], 1, axis=2)
    codes = codes.reshape(n, -1)
    tile = TILE_VECTORS * lanes(dtype)
    kept = sum(tile * np.count_nonzero(codes[i : i + tile].any(axis=0)) for i in range(0, n, tile))
    return codes, float(kept)


@contextmanager
def captured(module: ModuleType, name: str) -> Iterator[list[Any]]:
    """Keep the arguments of the calls of a loop."""
    loop, calls = getattr(module, name), []

    def keep(*args: Any) -> Any:
        calls.append(args)
        return loop(*args)

    setattr(module, name, keep)
    try:
        yield calls
    finally:
        setattr(module, name, loop)


def of_models(n: int, S: int, d: int) -> dict[str, Loop]:
    """Loops of prediction, training and explanation, with the arguments of a real fit."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((max(n, 4096), d))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2]
    found: dict[str, Loop] = {}
    straight = RFLAFRegressor(S, directions="random", n_jobs=1, random_state=0).fit(X, y)
    with captured(refined, "train_rows") as calls:
        curved = RFLAFRegressor(S, curves=True, n_jobs=1, random_state=0).fit(X, y)
    for dtype in (np.float32, np.float64):
        rows, item, kind = X.astype(dtype), np.dtype(dtype).itemsize, np.dtype(dtype)
        entries = len(rows) * S
        found[f"features.predict, {kind}"] = Loop(
            lambda m=straight.model_, rows=rows: m.decision(rows), dtype,
            (2 * d + CUBIC + 2) * entries, item * (rows.size + len(rows)), entries,
        )  # fmt: skip
        found[f"curves.predict_curved, {kind}"] = Loop(
            lambda m=curved.model_, rows=rows: m.decision(rows), dtype,
            (4 * d + CUBIC + 2) * entries, item * (rows.size + len(rows)), entries, 2 * d * item * entries,
        )  # fmt: skip
    sparse = scipy.sparse.random(len(X), 10 * d, 0.1, "csr", random_state=0)
    on_sparse = RFLAFRegressor(S, directions="random", n_jobs=1, random_state=0).fit(sparse, y)
    found["curves.predict_sparse, float64"] = Loop(
        lambda: on_sparse.model_.decision(sparse), np.float64,
        2 * sparse.nnz * S + (CUBIC + 2) * len(X) * S, 12 * sparse.nnz, len(X) * S, 2 * sparse.nnz * 8 * S,
    )  # fmt: skip
    found |= of_training(max(calls, key=lambda args: args[4].W.size * args[1].size))
    with captured(contributions, "explain") as calls:
        curved.explain(X[:16])
    found["contributions.explain, float32"] = of_explanation(calls[0])
    return found


def of_training(args: tuple[Any, ...]) -> dict[str, Loop]:
    """The loops of a mini-batch of a refined fit: forward, backward and the step."""
    rows, orders, batch, _, parameters, *_ = args
    gradient, net, work = args[7], args[10], args[14]
    index = orders[0][:batch].copy()
    S, n_outputs = net.bias.size, net.V.shape[0]
    n_linear, n_curves, entries = net.W.shape[0], rows.cells.shape[1], index.size * S
    n_parameters = sum(part.size for part in parameters)
    times = max(1, 2**19 // entries)

    forward = 2 * n_linear + 4 * n_curves + CUBIC + 4 + 2 * n_outputs
    backward = 2 * n_linear + 4 * n_curves + 10 + 4 * n_outputs
    item, step = 4, (*args[4:15], 10, 0.5)
    return {
        "network.forward, float32": Loop(
            lambda: forward_often(times, rows, index, net, work), np.float32,
            times * forward * entries, times * 4 * item * entries, times * entries,
            times * 2 * n_curves * item * entries,
        ),
        "network.backward, float32": Loop(
            lambda: backward_often(times, rows, index, net, gradient, work), np.float32,
            times * backward * entries, times * 4 * item * entries, times * 2 * entries,
            times * 4 * n_curves * item * entries,
        ),
        "refined.adam_step, float32": Loop(
            lambda: step_often(times, *step), np.float32,
            times * ADAM * n_parameters, times * 10 * item * n_parameters,
        ),
    }  # fmt: skip


def of_explanation(args: tuple[Any, ...]) -> Loop:
    """Walks through orders: one addition and one look-up per component and step."""
    orders, model, n_rows = args[4], args[2], args[12] - args[11]
    _, n_bases, n_pairs, n_groups = orders.shape
    steps = n_rows * n_bases * n_pairs * 2 * n_groups * model.bias.size
    return Loop(lambda: contributions.explain(*args), np.float32, (CUBIC + 3) * steps, 0, steps, 4 * 4 * steps)


def measured(given: argparse.Namespace) -> dict[str, Any]:
    """Roofs and loops, in turns."""
    above = roofs(given.size)
    loops = {
        f"{name}, {np.dtype(dtype)}": loop
        for dtype in (np.float32, np.float64)
        for name, loop in of_features(given.rows, given.width, given.columns, dtype).items()
    } | of_models(given.rows, given.width, given.columns)
    calls = {name: call for name, (call, _) in above.items()} | {name: loop.call for name, loop in loops.items()}
    seconds = medians(calls, given.rounds, process_time)
    rates = {name: amount / seconds[name] for name, (_, amount) in above.items()}
    block = given.rows * given.width * 8
    return {"roofs": rates, "loops": [judged(n, loop, seconds[n], rates, block) for n, loop in loops.items()]}


def judged(name: str, loop: Loop, seconds: float, rates: dict[str, float], block: float) -> dict[str, Any]:
    """A loop beside the roofs: the time that each alone would allow."""
    place, item = place_of(min(loop.streamed, block)), np.dtype(loop.dtype).itemsize
    least = {
        "operations": loop.operations / rates[f"BLAS {np.dtype(loop.dtype)}"],
        f"bytes of {place}": loop.streamed / rates[place],
        "cubics": loop.cubics / rates[f"cubics {np.dtype(loop.dtype)}"],
        "bytes looked up": loop.looked_up / rates["L1"],
    }
    bound = max(least, key=lambda kind: least[kind])
    return {
        "loop": name, "seconds": seconds, "flops": loop.operations / seconds,
        "bytes": (loop.streamed + 4 * item * loop.cubics + loop.looked_up) / seconds, "bound": bound,
        "share": least[bound] / seconds, "in_turn": sum(least.values()) / seconds,
    }  # fmt: skip


def table(found: dict[str, Any]) -> str:
    """The roofs, then one row for each loop."""
    units = {name: UNITS.get(name.split()[0], "GB/s") for name in found["roofs"]}
    top = markdown_table(
        ["roof", "measured"], [[name, f"{rate / 1e9:.1f} {units[name]}"] for name, rate in found["roofs"].items()]
    )
    rows = [
        [
            one["loop"], f"{one['flops'] / 1e9:.1f}", f"{one['bytes'] / 1e9:.1f}", one["bound"],
            *(f"**{one[name]:.0%}**" if one[name] >= HALF else f"{one[name]:.0%}" for name in ("share", "in_turn")),
        ]
        for one in sorted(found["loops"], key=lambda one: -one["share"])
    ]  # fmt: skip
    head = ["loop", "GFlop/s", "GB/s", "bound by", "share of the roof", "one part after the other"]
    return f"{top}\n\n{markdown_table(head, rows)}"


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--rows", type=int, default=4096)
    parser.add_argument("--width", type=int, default=96, help="components, a multiple of four")
    parser.add_argument("--columns", type=int, default=10)
    parser.add_argument("--size", type=int, default=512, help="of the matrices whose product is the roof")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args(argv)
    with threadpool_limits(1):
        found = measured(given)
    given.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    text = table(found)
    given.out.with_suffix(".md").write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
