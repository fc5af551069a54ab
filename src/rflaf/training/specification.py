"""The specification of a fit, with every choice that a user may leave to the data."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from rflaf.errors import Array
from rflaf.functions.bases import Basis, BSplineBasis
from rflaf.functions.densities import AxesFirst, Density, Gaussian
from rflaf.functions.losses import Loss, Squared
from rflaf.training.solvers.refined.limits import Limits
from rflaf.training.solvers.shared_activation import Search

_LARGEST_POOL = 5000
_GREEDY_POOL, _LARGEST_GREEDY_POOL, _GREEDY_SHARE = 6000, 12_000, 40
_LARGEST_AUTO_WIDTH = 500
FEW_ROWS = 3000  # with at most this many rows, additive and random-direction models compete too
LEAST_REFINED_ROWS = 20  # to train on some of them
FIRST_WIDTH = 100  # to begin with, where none is given
_MOST_GIVEN = 300  # directions of the models that compete with a refined one
SEARCH_ROWS = 20_000  # sampled to search for a recipe


@dataclass(frozen=True, slots=True)
class FitSpec:
    """A model to fit. ``None`` stands for "choose from the data".

    Attributes
    ----------
    n_components : S, the number of components; None for the smallest width whose estimated error is within
        ``width_tolerance`` of the lowest, on the greedy path or on rows held out
    widest : the largest width that may be chosen
    refined : train the directions too, from a plain draw
    curves : whether columns of a refined model have curves; None for the better of both on rows held out
    keep_outliers : trust every target; else targets far from all others and from the fit weigh less
    sampling : "plain", "leverage" or "greedy"
    per_component : one activation per component, instead of one shared by all
    pool_size : s, directions drawn to choose from; None for ten times S, between 1000 and 5000, under leverage
        sampling, and for forty times S, between 6000 and 12000, under greedy selection: at least twice S
    loss : the loss to minimise
    basis, density : where the activation lives, and p(w)
    scale : centre and scale the inputs, so that directions are drawn for standardised ones
    bandwidth : length scale l on these inputs, directions are w / l with w ~ p(w); None for the median standard
        deviation of a projection, or its root mean square without ``scale``, so that projections have unit scale
    exact : descend to the minimum over a shared activation, on all rows and components
    radius : R, the length of a shared activation's coefficients; None for the one that gives mean square one
    l1 : penalty on the absolute values of a shared activation's coefficients
    alpha : lambda* of the paper, 1/n sum loss + alpha S |v|^2 for an activation of mean square one; None for the
        lowest error on rows left out: each in its turn, or some where unknowns are many or the loss is not the squared
        one. Of refined models the penalty on directions and curves; None for a search
    leverage_alpha : lambda of the leverage scores; None for 1 / sqrt(n)
    leverage_at_fit : lambda of the leverage scores is alpha, or the ridge that the pool was fitted with
    leverage_rows : rows the scores are computed from; None for all
    balanced : the pool's activation minimises problem (8) of the paper, without a ridge, instead of problem (6)
    replace : a direction of the pool may be drawn several times
    levels : how many levels the codes of each column stand for, zero for numbers; empty where all are numbers
    splits : pairs of row numbers, to train on and held out, that judge every choice; None for folds of their own
    lessons : targets that refined models train on in place of the rows' own, (n_samples, n_outputs) each, of every
        split and, last, of all rows; the own ones judge what is held out. Empty for none
    exposed : weights are of exposures: rows with the same target are observations of their own
    search : how far to search for the activation
    limits : columns that a refined model must rise or fall in, and those that may act together
    memory : bytes that the fit may allocate; None for what the sums need and 256 MiB for the blocks
    """

    n_components: int | None = 100
    width_tolerance: float = 0.01
    widest: int = _LARGEST_AUTO_WIDTH
    refined: bool = False
    curves: bool | None = None
    keep_outliers: bool = False
    sampling: str = "plain"
    per_component: bool = False
    pool_size: int | None = None
    loss: Loss = field(default_factory=Squared)
    basis: Basis = field(default_factory=BSplineBasis)
    density: Density = field(default_factory=Gaussian)
    scale: bool = True
    bandwidth: float | None = None
    alpha: float | None = None
    exact: bool = False
    radius: float | None = None
    l1: float = 0.0
    leverage_alpha: float | None = None
    leverage_at_fit: bool = False
    leverage_rows: int | None = None
    balanced: bool = False
    replace: bool = True
    intercept: bool = True
    levels: tuple[int, ...] = ()
    splits: tuple[tuple[Array, Array], ...] | None = None
    lessons: tuple[Array, ...] = ()
    exposed: bool = False
    search: Search = field(default_factory=Search)
    limits: Limits = field(default_factory=Limits)
    memory: int | None = None

    def n_drawn_for(self, n_features: int) -> int:
        """Return the number of columns that random directions are drawn for: one for each level of a category."""
        return sum(n_levels or 1 for n_levels in self.levels) if self.levels else n_features

    def for_few_rows(self, n_features: int) -> list[FitSpec]:
        """Return models of target-independent directions, the simplest first.

        A sum of functions of single columns, and such a sum with random directions added; if the columns leave no room
        for these, random directions alone. Never more than ``_MOST_GIVEN`` of them, each with shapes of its own: that
        is more weights than there are rows, and time and memory go with their square and cube.
        """
        width = FIRST_WIDTH if self.n_components is None else self.n_components
        width = min(width, max(_MOST_GIVEN, 2 * n_features))
        random = replace(self, refined=False, sampling="plain", n_components=width)
        if 2 * n_features > width:
            return [random]
        axes = replace(random, density=AxesFirst(self.density))
        return [replace(axes, n_components=n_features), axes]

    @property
    def n_pool(self) -> int:
        """Directions drawn first: the width itself under plain sampling."""
        if self.sampling == "plain":
            return self.most_components
        if self.pool_size is not None:
            return self.pool_size
        if self.sampling == "greedy":
            wide = min(_GREEDY_SHARE * (self.n_components or 0), _LARGEST_GREEDY_POOL)
            return max(_GREEDY_POOL, wide, 2 * self.most_components)
        return max(self.most_components, min(max(10 * self.most_components, 1000), _LARGEST_POOL))

    @property
    def most_components(self) -> int:
        """The width, or the largest that may be chosen."""
        return self.widest if self.n_components is None else self.n_components
