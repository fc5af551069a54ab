"""Any convex loss on fixed features: the regularised risk, minimised to convergence.

    minimise over V, b    1/n sum_i w_i loss(b + z_i V, y_i) + ridge |V|^2,       n = sum_i w_i

Problem (mzer2) of the paper for a given activation, and line 6 of Algorithm 1 under any loss. The rows enter by sums
over blocks, as everywhere. The Gram matrix of the features is factored once: in the coordinates U with V = A^-1/2 U,
A = c G + 2 ridge, the problem is as round as the curvature c of the loss is even, and L-BFGS needs tens of passes.
Where it needs more, G is weighted by the curvature found on the way; where a ridge was chosen on rows held out, by the
curvature at the solution there, from which some six passes are left. With one output and few features a Newton step
costs hardly more than a pass, and six to eight of them are enough.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any, Protocol

import numpy as np

from rflaf.errors import Array, StopReason
from rflaf.functions._kernels.losses import Objective, sum_pass
from rflaf.functions.losses import Loss
from rflaf.model.features import RowFeatures, complete_design, sum_equations
from rflaf.model.normal_equations import NormalEquations, RidgeFactor, RidgeSystem, walk_downhill
from rflaf.rows.blocks import Block, BlockSource, Pairs, Scratch, Unchanged
from rflaf.rows.executors import Executor, Items
from rflaf.rows.folds import N_FOLDS, folds_of

_KEPT_MEMORY = 2**30  # bytes of features that are kept instead of made again in every pass
_NEWTON_FEATURES = 64  # up to as many a Newton step costs hardly more than a pass
_NEWTON_STEPS = 15
_ROUNDED_FEATURES = 1000  # from where on weighting their products by the curvature takes as long as the passes it saves
_HALVINGS = 30
_ROUND = 60  # steps of L-BFGS before the curvature is looked at again
_LEAST_SHARE = 1e-4  # of the mean curvature, that rows are taken to have
_STALLED = 40  # steps without a smaller gradient or a lower objective
_LONGEST = 10.0  # step, of where one stands
_FEW_ROWS = 1000  # that are cheap to solve far beyond what is asked
_FAR_BEYOND, _BEYOND = 1e-8, 1e-3
_PAIRS = 20  # of steps and changes of slope that L-BFGS remembers
_LEAST_CURVATURE = 1e-6  # of the usual one
_JITTER = 1e-9  # of the mean curvature, that a Newton step adds
_MANY_ROWS = 4000
_ROWS_FOR_ONE_FOLD = 2000  # with more rows than that one fold is enough to judge by
_PATH_TOLERANCE = 3e-2  # of the gradient while ridges are compared


Whitening = tuple[float, RidgeFactor]  # mean curvature c of the loss, and the factor of G + 2 ridge / c


Make = Callable[[Any, Scratch], Block]  # a block whose ``X`` are features (n_components, n_rows), of an item


class Rows(Protocol):
    """Features with targets and weights, block by block: items, and what makes a block of one, wherever that lives."""

    @property
    def items(self) -> Items[Any]: ...

    @property
    def make(self) -> Make: ...


@dataclass(frozen=True, slots=True)
class MadeRows:
    """Features, times their importance, made again in every pass."""

    source: BlockSource
    features: RowFeatures
    importance: Array

    @property
    def items(self) -> Items[Any]:
        return self.source

    @property
    def make(self) -> Make:
        features, importance = self.features, self.importance
        weighted = bool((importance != 1).any())  # it is one throughout under plain sampling

        def made(block: Block, scratch: Scratch) -> Block:
            z = scratch.array("z", (features.n_components, block.n_rows), features.dtype)
            features.features(block.X, z)
            if weighted:
                z *= importance[:, None].astype(z.dtype)
            return Block(z, block.y, block.weight)

        return made

    @property
    def size(self) -> int:
        """Bytes that all features take."""
        return self.source.n_samples * self.features.n_components * self.features.dtype.itemsize


@dataclass(frozen=True, slots=True)
class KeptRows:
    """Features that were made beforehand."""

    blocks: Items[Block]

    @property
    def items(self) -> Items[Any]:
        return Unchanged(self.blocks)

    @property
    def make(self) -> Make:
        return lambda block, scratch: block


@dataclass(frozen=True, slots=True)
class OneFold:
    """Rows of which those of one fold weigh nothing, or only those anything.

    ``folds`` are the folds of the rows of every block, and the weights of all folds there.
    """

    rows: Rows
    folds: Items[tuple[Array, Array]]
    fold: int
    held_out: bool

    @property
    def items(self) -> Items[Any]:
        return Pairs(self.rows.items, self.folds)

    @property
    def make(self) -> Make:
        make, fold, held_out = self.rows.make, self.fold, self.held_out

        def made(pair: Any, scratch: Scratch) -> Block:
            item, (folds, _) = pair
            block = make(item, scratch)
            weighs = (folds == fold) == held_out
            return replace(block, weight=weighs * (1.0 if block.weight is None else block.weight))

        return made


@dataclass(slots=True)
class _Totals:
    """Sums over rows: loss, and its derivatives in V (n_components, n_outputs) and b (n_outputs,)."""

    loss: float
    V: Array
    b: Array

    def __iadd__(self, other: _Totals) -> _Totals:
        self.loss += other.loss
        self.V += other.V
        self.b += other.b
        return self


def _totals_of_block(block: Block, of_loss: Loss, V: Array, b: Array) -> _Totals:
    """The sums over one block, for any loss."""
    z, y, weight = block.X, block.y, block.weight
    f = (z.T @ V.astype(z.dtype)).astype(np.float64) + b
    loss, slope = of_loss.value(f, y), of_loss.slope(f, y)
    if weight is not None:
        loss, slope = loss * weight, slope * weight[:, None]
    return _Totals(float(loss.sum()), (z @ slope.astype(z.dtype)).astype(np.float64), slope.sum(axis=0))


def _compiled_totals(block: Block, of_loss: Loss, V: Array, b: Array) -> _Totals:
    """The same for one output of a loss the compiled loops know, in one sweep."""
    z, slopes = block.X, np.zeros(V.shape[0])
    y, weight = (np.ascontiguousarray(part, np.float64).ravel() for part in (block.y, _given(block.weight)))
    number, first, second = of_loss.kernel() or (0, 0.0, 0.0)
    objective = Objective(number, first, second, b)
    loss, at_b = sum_pass(objective, z, y, weight, V[:, 0].astype(z.dtype), float(b[0]), slopes)
    return _Totals(loss, slopes[:, None], np.array([at_b]))


def _given(weight: Array | None) -> Array:
    """Weights, none at all where all are one."""
    return np.empty(0) if weight is None else weight


@dataclass(frozen=True)
class Memory:
    """What rows seen before say: summed over outputs, s'(V - V0) + (V - V0)' A (V - V0) / 2, with b as a last row of V.

    ``A`` (n_outputs, n_components + 1, n_components + 1), ``centre`` V0 and ``slope`` s (n_components + 1, n_outputs),
    ``weight`` the sum of their weights. Exact for the squared loss, else the curvature where they were fitted. A ridge
    keeps the loss from being flat at its solution: s = - 2 weight ridge V0.
    """

    A: Array
    centre: Array
    slope: Array
    weight: float

    def faded(self, factor: float) -> Memory:
        """What rows say that count ``factor`` of what they did."""
        return Memory(factor * self.A, self.centre, factor * self.slope, factor * self.weight)

    def value_and_slope(self, V: Array, b: Array) -> tuple[float, Array]:
        off = np.vstack([V, b]) - self.centre
        bent = np.einsum("oij,jo->io", self.A, off)
        return float(np.sum(off * (self.slope + 0.5 * bent))), self.slope + bent


@dataclass(frozen=True)
class Risk:
    """The problem, with the mean products of its features to whiten by."""

    rows: Rows
    loss: Loss
    system: RidgeSystem
    weight: float
    intercept: bool
    executor: Executor
    memory: Memory | None = None
    _constant: dict[bytes, tuple[float, Array, Array, float]] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of_rows(
        cls,
        source: BlockSource,
        features: RowFeatures,
        importance: Array,
        loss: Loss,
        intercept: bool,
        executor: Executor,
        memory: int | None = None,
    ) -> Risk:
        """Of a loss on the features of rows, which are kept where they fit in ``memory`` bytes."""
        made = MadeRows(source, features, importance)
        if made.size <= (_KEPT_MEMORY if memory is None else memory):
            make = made.make
            return cls.of_blocks(executor.map(source, lambda block: make(block, Scratch())), loss, intercept, executor)
        equations = sum_equations(source, features, executor).scale(importance)
        return cls(made, loss, equations.system(intercept), equations.weight, intercept, executor)

    @classmethod
    def of_blocks(cls, kept: Items[Block], loss: Loss, intercept: bool, executor: Executor) -> Risk:
        """Of blocks whose rows ``X`` are features already, (n_components, n_rows)."""

        def one(block: Block, scratch: Scratch) -> NormalEquations:
            design = scratch.array("design", (block.X.shape[0] + 1 + block.y.shape[1], block.y.shape[0]), block.X.dtype)
            design[: block.X.shape[0]] = block.X
            complete_design(design, block.y, block.weight)
            return NormalEquations.from_design(design, block.y.shape[1], block.weight)

        equations = executor.reduce(kept, one)
        return cls(KeptRows(kept), loss, equations.system(intercept), equations.weight, intercept, executor)

    @property
    def n_outputs(self) -> int:
        return int(self.system.c.shape[1])

    def totals(self, V: Array, b: Array) -> _Totals:
        """Summed loss and slopes at output weights ``V`` and intercepts ``b``, in one pass."""

        of_loss, of_block = self.loss, _totals_of_block
        if self.n_outputs == 1 and of_loss.kernel() is not None:
            of_block = _compiled_totals
        total: _Totals = self._sum(lambda block, scratch: of_block(block, of_loss, V, b))
        if self.memory is not None:
            value, slope = self.memory.value_and_slope(V, b)
            total += _Totals(value, slope[:-1], slope[-1])
        return total

    def _sum(self, of_block: Callable[[Block, Scratch], Any]) -> Any:
        """Over all blocks; what is sent to them is the function and how they are made, not the problem."""
        make = self.rows.make
        return self.executor.reduce(self.rows.items, lambda item, scratch: of_block(make(item, scratch), scratch))

    def at_constant(self, base: Array) -> tuple[float, Array, Array, float]:
        """Value, derivatives in V and b, and mean curvature of the constant answer ``base``; found once."""
        base = base * self.intercept
        if base.tobytes() not in self._constant:
            nothing = np.zeros((self.system.G.shape[0], self.n_outputs))
            found = (*self.objective(nothing, base, 0.0), self.mean_curvature(nothing, base))
            self._constant[base.tobytes()] = found
        return self._constant[base.tobytes()]

    def objective(self, V: Array, b: Array, ridge: float) -> tuple[float, Array, Array]:
        """Value, and derivatives in V and b."""
        total = self.totals(V, b)
        value = total.loss / self.weight + ridge * float(np.sum(V**2))
        return value, total.V / self.weight + 2 * ridge * V, total.b / self.weight * self.intercept

    def mean_curvature(self, V: Array, b: Array) -> float:
        """Mean of the loss' curvature over rows and outputs."""

        loss = self.loss

        def one(block: Block, scratch: Scratch) -> Array:
            z, y, weight = block.X, block.y, block.weight
            curved = loss.curvature((z.T @ V.astype(z.dtype)).astype(np.float64) + b, y).mean(axis=1)
            w = np.ones_like(curved) if weight is None else weight
            return np.array([w @ curved, w.sum()])

        curved, weight = self._sum(one)
        return float(curved / weight) if weight > 0 else 1.0

    def whiten_at(self, V: Array, b: Array, ridge: float) -> Whitening:
        """The coordinates in which the problem is round at V and b, outputs taken together."""

        loss = self.loss

        def one(block: Block, scratch: Scratch) -> NormalEquations:
            z, y = block.X, block.y
            curved = loss.curvature((z.T @ V.astype(z.dtype)).astype(np.float64) + b, y).mean(axis=1)
            curved = np.maximum(curved, _LEAST_SHARE * curved.mean()) if curved.any() else np.ones_like(curved)
            weight = (curved if block.weight is None else curved * block.weight).astype(z.dtype)
            design = scratch.array("weighted", (z.shape[0] + 2, z.shape[1]), z.dtype)
            design[:-2] = z
            complete_design(design, np.zeros((z.shape[1], 1), z.dtype), weight)
            return NormalEquations.from_design(design, 1, weight)

        equations: NormalEquations = self._sum(one)
        if self.memory is not None:
            equations.moments[:-1, :-1] += self.memory.A.mean(axis=0)
        curvature = equations.weight / self.weight
        return curvature, equations.system(self.intercept).factor(2 * ridge / curvature)

    def hessians(self, V: Array, b: Array, dtype: Any = np.float64) -> Array:
        """Second derivatives of the summed loss in V and b, one matrix an output, those of rows before with them.

        (n_outputs, n_components + 1, n_components + 1); products are summed in ``dtype`` within a block.
        """
        m, loss = V.shape[0], self.loss

        def one(block: Block, scratch: Scratch) -> Array:
            z, y, weight = block.X, block.y, block.weight
            curved = loss.curvature((z.T @ V.astype(z.dtype)).astype(np.float64) + b, y)
            root = np.sqrt(curved if weight is None else curved * weight[:, None]).T.astype(dtype)
            design = scratch.array("weighted", (m + 1, z.shape[1]), dtype)
            A = np.empty((root.shape[0], m + 1, m + 1))
            for o, column in enumerate(root):
                np.multiply(z, column, out=design[:m])
                design[m] = column
                A[o] = design @ design.T
            return A

        A: Array = self._sum(one)
        if not self.intercept:
            A[:, m], A[:, :, m] = 0, 0
        return A if self.memory is None else A + self.memory.A

    def curvature(self, V: Array, b: Array, ridge: float = 0.0) -> Memory:
        """The quadratic these rows leave behind at the solution for a ridge, with that of the rows before."""
        slope = np.vstack([-2 * self.weight * ridge * V, np.zeros_like(b)])
        return Memory(self.hessians(V, b), np.vstack([V, b]), slope, self.weight)


@dataclass(frozen=True, slots=True)
class RiskSolution:
    """Output weights ``v`` (n_components, n_outputs), intercept (n_outputs,), and how they were found.

    ``gradient`` is the norm of the whitened gradient over that at the start, ``n_passes`` the number of passes.
    """

    v: Array
    intercept: Array
    ridge: float
    objective: float
    gradient: float
    n_passes: int
    stop_reason: StopReason
    factor: RidgeFactor


def whiten(risk: Risk, ridge: float, base: Array) -> Whitening:
    """The coordinates in which the problem is round, for the curvature of the loss at the constant answer."""
    curvature = risk.at_constant(base)[3]
    usual = min(risk.loss.curvature_bound, 1.0)
    curvature = curvature if curvature > _LEAST_CURVATURE * usual else usual  # a start where the loss is straight
    return curvature, risk.system.factor(2 * ridge / curvature)


@dataclass
class _Whitened:
    """The problem for one ridge in coordinates in which it is round: V = B' U / sqrt(c), features centred."""

    risk: Risk
    ridge: float
    curvature: float
    factor: RidgeFactor
    rounding: float  # of the objective: that of its value for the constant answer, which outputs far from it have too
    n_passes: int = 0
    _seen: tuple[Array, float, Array] | None = None

    def unpack(self, x: Array) -> tuple[Array, Array]:
        """V and b at the coordinates ``x``."""
        n_outputs, root = self.risk.n_outputs, self.curvature**0.5
        U, centred = x[:-n_outputs].reshape(-1, n_outputs), x[-n_outputs:] / root
        V = self.factor.inverse_root.T @ U / root
        return V, (centred - self.factor.system.z_mean @ V) * self.risk.intercept

    def pack(self, V: Array, b: Array) -> Array:
        """The coordinates of V and b."""
        U = self.factor.inverse_root @ (self.factor.system.G @ V + self.factor.ridge * V)
        centred = (b + self.factor.system.z_mean @ V) * self.risk.intercept
        return self.curvature**0.5 * np.concatenate([U.ravel(), centred])

    def objective(self, x: Array) -> tuple[float, Array]:
        """Value and gradient; asked again where it was last, without another pass."""
        if self._seen is None or not np.array_equal(x, self._seen[0]):
            V, b = self.unpack(x)
            value, slope, at_b = self.risk.objective(V, b, self.ridge)
            self.n_passes += 1
            self._seen = x, value, self.whitened(slope, at_b)
        return self._seen[1:]

    def whitened(self, slope: Array, at_b: Array) -> Array:
        """A derivative in V and b as one in these coordinates."""
        centred = slope - np.outer(self.factor.system.z_mean, at_b)
        return np.concatenate([(self.factor.inverse_root @ centred).ravel(), at_b]) / self.curvature**0.5

    def again(self, x: Array) -> _Whitened:
        """The problem in coordinates that are round where it stands, at ``x``."""
        curvature, factor = self.risk.whiten_at(*self.unpack(x), self.ridge)
        return replace(self, curvature=curvature, factor=factor, _seen=None)

    def newton_step(self, x: Array, slope: Array) -> Array:
        """Minus the inverse Hessian times ``slope``, for one output: the features' products weighted by curvature."""
        V, b = self.unpack(x)
        single = self.risk.system.precision >= np.finfo(np.float32).eps
        past = self.risk.hessians(V, b, np.float32 if single else np.float64)[0] / self.risk.weight
        m, z_mean = V.shape[0], self.factor.system.z_mean
        to_centred = np.eye(m + 1)
        to_centred[m, :m] = -z_mean  # b = centred - z_mean V
        H = to_centred.T @ past @ to_centred
        H[np.arange(m), np.arange(m)] += 2 * self.ridge
        B = np.zeros((self.factor.inverse_root.shape[0] + 1, m + 1))
        B[:-1, :m], B[-1, m] = self.factor.inverse_root, 1.0
        whitened = B @ H @ B.T / self.curvature
        whitened[np.diag_indices_from(whitened)] += _JITTER * (1 + np.trace(whitened) / len(whitened))
        return -np.linalg.solve(whitened, slope)


def on_row_space(risk: Risk) -> tuple[Risk, Array] | None:
    """The same problem in fewer unknowns, and Q (n_components, rank) with V = Q V'; None where it would not be smaller.

    A ridge keeps V in the span of the rows' features, so with fewer rows than features coordinates there are enough.
    """
    rows = risk.rows
    if not isinstance(rows, KeptRows) or 2 * risk.system.n_rows > risk.system.G.shape[0]:
        return None
    kept = [rows.blocks[i] for i in range(len(rows.blocks))]
    Z = np.hstack([block.X for block in kept])
    if Z.shape[1] >= Z.shape[0]:  # rows of weight zero
        return None
    Q, R = np.linalg.qr(Z)
    ends = np.cumsum([block.X.shape[1] for block in kept])[:-1]
    parts = np.split(R, ends, axis=1)
    blocks = [replace(block, X=np.ascontiguousarray(part)) for block, part in zip(kept, parts, strict=True)]
    return Risk.of_blocks(blocks, risk.loss, risk.intercept, risk.executor), Q


def tolerance(risk: Risk, asked: float) -> float:
    """What to ask of the gradient: in double precision more than ``asked`` where that costs nothing or is needed.

    Few rows are cheap. A loss of straight pieces amplifies on its way how the sums were rounded, and only at the end is
    its solution the same for every partition of the rows.
    """
    if risk.system.precision >= np.finfo(np.float32).eps:
        return asked
    if risk.system.count <= _FEW_ROWS:
        return _FAR_BEYOND * asked
    return _BEYOND * asked if risk.loss.straight else asked


def hides_rounding(n_rows: float, loss: Loss) -> bool:
    """Whether what is only searched for may be in single precision: many rows are noisier than its rounding.

    A loss of straight pieces shows even that.
    """
    return n_rows > _MANY_ROWS and not loss.straight


def minimise_risk(
    risk: Risk,
    ridge: float,
    base: Array,
    tol: float,
    max_iter: int,
    start: tuple[Array, Array] | None = None,
    whitening: Whitening | None = None,
) -> RiskSolution:
    """The solution for one ridge, from ``start`` (V, b) or from the constant answer ``base`` (n_outputs,).

    It ends when the norm of the whitened gradient is ``tol`` of what it is for the constant answer, or for the reason
    it states.
    """
    m, n_outputs = risk.system.G.shape[0], risk.n_outputs
    nothing = np.zeros((m, n_outputs)), base * risk.intercept
    value, *slopes, _ = risk.at_constant(base)
    rounding = 10 * risk.system.precision
    problem = _Whitened(risk, ridge, *(whitening or whiten(risk, ridge, base)), rounding * abs(value))

    def limit() -> float:
        return max(tol * float(np.linalg.norm(problem.whitened(*slopes))), rounding * min(1.0, abs(value)))

    x, reason = problem.pack(*(start or nothing)), StopReason.ITERATIONS
    if _by_newton(risk):
        x, reason = _newton(problem, x, limit(), min(max_iter, _NEWTON_STEPS))
    left = max_iter
    while reason is StopReason.ITERATIONS and left > 0:
        if left < max_iter:
            V, b = problem.unpack(x)
            problem = problem.again(x)
            x = problem.pack(V, b)
        x, reason = _descend(problem, x, limit(), min(left, _ROUND))
        left -= _ROUND
    V, b = problem.unpack(x)
    value, last = problem.objective(x)
    first = float(np.linalg.norm(problem.whitened(*slopes)))
    relative = float(np.linalg.norm(last)) / first if first > 0 else 0.0
    return RiskSolution(V, b, ridge, value, relative, problem.n_passes, reason, problem.factor)


def _by_newton(risk: Risk) -> bool:
    """Whether a Newton step costs hardly more than a pass."""
    return risk.n_outputs == 1 and risk.system.G.shape[0] <= _NEWTON_FEATURES and risk.loss.curved_everywhere


def _rounds_where_it_stands(risk: Risk) -> bool:
    """Whether the curvature at a start is worth another Gram matrix.

    It takes three quarters of the passes from one output. Outputs taken together gain nothing, and losses of straight
    pieces, whose curvature jumps, lose; with many features the matrix costs what it saves.
    """
    few = risk.system.G.shape[0] <= _ROUNDED_FEATURES and risk.n_outputs == 1
    return few and not risk.loss.straight and not _by_newton(risk)


def _descend(problem: _Whitened, x: Array, limit: float, max_iter: int) -> tuple[Array, StopReason]:
    """L-BFGS until the gradient is below ``limit``.

    SciPy's compares values of the objective, whose rounding in float32 hides a fall long before the gradient is small.
    Here a step may seem to rise by as much as rounding does.
    """
    value, slope = problem.objective(x)
    rounding = problem.rounding
    pairs: deque[tuple[Array, Array, float]] = deque(maxlen=_PAIRS)
    least, lowest, since = np.inf, np.inf, 0
    for _ in range(max_iter):
        size = float(np.linalg.norm(slope))
        if size <= limit:
            return x, StopReason.GRADIENT
        since = 0 if size < least or value < lowest - rounding else since + 1
        least, lowest = min(size, least), min(value, lowest)
        if since > _STALLED:
            return x, StopReason.ROUNDING
        step = -_inverse_times(slope, pairs)
        step *= min(1.0, _LONGEST * (1 + float(np.linalg.norm(x))) / float(np.linalg.norm(step)))
        for _ in range(_HALVINGS):
            there, slope_there = problem.objective(x + step)
            if there <= value + 1e-4 * float(slope @ step) + rounding:
                break
            step = step / 2
        else:
            if not pairs:
                return x, StopReason.ROUNDING
            pairs.clear()
            continue
        change = slope_there - slope
        curved = float(change @ step)
        if curved > 1e-12 * float(np.linalg.norm(change) * np.linalg.norm(step)):
            pairs.append((step, change, curved))
        x, value, slope = x + step, there, slope_there
    return x, StopReason.GRADIENT if np.linalg.norm(slope) <= limit else StopReason.ITERATIONS


def _inverse_times(slope: Array, pairs: deque[tuple[Array, Array, float]]) -> Array:
    """The inverse Hessian that the last steps and changes of slope suggest, times ``slope``."""
    answer, shares = slope.copy(), []
    for step, change, curved in reversed(pairs):
        shares.append(float(step @ answer) / curved)
        answer -= shares[-1] * change
    if pairs:
        _, change, curved = pairs[-1]
        answer *= curved / float(change @ change)
    for (step, change, curved), share in zip(pairs, reversed(shares), strict=True):
        answer += (share - float(change @ answer) / curved) * step
    return answer


def _newton(problem: _Whitened, x: Array, limit: float, max_iter: int) -> tuple[Array, StopReason]:
    """Newton's method with halved steps until the gradient is below ``limit``; one output."""
    value, slope = problem.objective(x)
    rounding = problem.rounding
    for _ in range(max_iter):
        if np.linalg.norm(slope) <= limit:
            return x, StopReason.GRADIENT
        step = problem.newton_step(x, slope)
        for _ in range(_HALVINGS):
            there, slope_there = problem.objective(x + step)
            if there <= value + 1e-4 * float(slope @ step) + rounding:
                break
            step = step / 2
        else:
            return x, StopReason.ROUNDING
        x, value, slope = x + step, there, slope_there
    return x, StopReason.GRADIENT if np.linalg.norm(slope) <= limit else StopReason.ITERATIONS


def ridge_grid(risk: Risk, base: Array) -> Array:
    """Ridges to choose from, in falling order: those of the squared loss, for the curvature of this one."""
    curvature, _ = whiten(risk, 1.0, base)
    return risk.system.ridges()[::-1] * curvature / 2


@dataclass(frozen=True, slots=True)
class RidgeChoice:
    """A ridge; the solution (V, b) it was judged by, and the coordinates round there where they are worth finding."""

    ridge: float
    start: tuple[Array, Array] | None = None
    whitening: Whitening | None = None


def choose_ridge(
    risk: Risk, source: BlockSource, ridges: Array, base: Array, max_iter: int, memory: int | None = None
) -> RidgeChoice:
    """The ridge of lowest loss on rows held out, among ``ridges``, in falling order.

    ``source`` are the rows of the problem. Rows are held out by what they contain (see `rflaf.rows.folds`): a fifth of
    them
    where there are many, else every fifth in turn. Each solution is the start of the next. Features that are kept are
    copied in single precision to be searched on, where they are of many rows and ``memory`` bytes hold both.
    """
    folds, weights = _fold_weights(risk, source)
    used = [fold for fold in range(N_FOLDS) if 0 < weights[fold] < weights.sum()]
    used = used[:1] if risk.system.count > _ROWS_FOR_ONE_FOLD else used
    split = _split_in_single if _searched_in_single(risk, source, memory) else _split
    parts = [split(risk, folds, weights, fold) for fold in used]
    if not parts:
        return RidgeChoice(float(ridges[0]))
    tol = tolerance(risk, _PATH_TOLERANCE)
    starts: list[tuple[Array, Array] | None] = [None] * len(parts)
    first: dict[int, tuple[Array, Array]] = {}

    def loss_at(i: int) -> float:
        ridge, loss = float(ridges[i]), 0.0
        whitening = whiten(risk, ridge, base)
        for part, (kept, held_out) in enumerate(parts):
            solution = minimise_risk(kept, ridge, base, tol, max_iter, starts[part], whitening)
            starts[part] = solution.v, solution.intercept
            first.setdefault(i, (solution.v, solution.intercept))
            loss += held_out.totals(solution.v, solution.intercept).loss
        return loss

    chosen = walk_downhill(ridges.size, lambda places: [loss_at(i) for i in places])
    ridge, start = float(ridges[chosen]), first[chosen]
    return RidgeChoice(ridge, start, parts[0][0].whiten_at(*start, ridge) if _rounds_where_it_stands(risk) else None)


def _fold_weights(risk: Risk, source: BlockSource) -> tuple[Items[tuple[Array, Array]], Array]:
    """The fold of every row, a byte each, and the weights of the folds: block by block, and summed."""

    def folds_of_rows(block: Block) -> tuple[Array, Array]:
        folds = folds_of(block.X, N_FOLDS).astype(np.uint8)
        return folds, np.bincount(folds, block.weight, N_FOLDS).astype(np.float64)

    found = risk.executor.map(source, folds_of_rows)
    return found, risk.executor.reduce(found, lambda folds, scratch: folds[1].copy())


def _split(risk: Risk, folds: Items[tuple[Array, Array]], weights: Array, fold: int) -> tuple[Risk, Risk]:
    """The problem on all folds but one, and that one."""
    held_out = float(weights[fold])
    return (
        replace(risk, rows=OneFold(risk.rows, folds, fold, False), weight=float(weights.sum()) - held_out),
        replace(risk, rows=OneFold(risk.rows, folds, fold, True), weight=held_out),
    )


def _searched_in_single(risk: Risk, source: BlockSource, memory: int | None) -> bool:
    """Whether a ridge is chosen in single precision: features are kept, and a copy of them finds room."""
    size = source.n_samples * risk.system.G.shape[0] * np.dtype(np.float64).itemsize
    room = 1.5 * size <= (_KEPT_MEMORY if memory is None else memory)
    return room and isinstance(risk.rows, KeptRows) and hides_rounding(risk.system.count, risk.loss)


def _split_in_single(risk: Risk, folds: Items[tuple[Array, Array]], weights: Array, fold: int) -> tuple[Risk, Risk]:
    """As `_split`, for features that are kept: either part is a copy in single precision."""

    def copied(pair: Any) -> list[Block]:
        block, (folds, _) = pair
        z, weight = block.X.astype(np.float32, copy=False), block.weight
        parts = (np.flatnonzero((folds == fold) == held_out) for held_out in (False, True))
        return [
            Block(np.take(z, part, axis=1), block.y[part], None if weight is None else weight[part]) for part in parts
        ]

    both = risk.executor.map(Pairs(risk.rows.items, folds), copied)
    kept, held_out = (KeptRows(risk.executor.map(both, itemgetter(part))) for part in (0, 1))
    system = replace(risk.system, precision=float(np.finfo(np.float32).eps))
    out = float(weights[fold])
    return (
        replace(risk, rows=kept, system=system, weight=float(weights.sum()) - out),
        replace(risk, rows=held_out, system=system, weight=out),
    )
