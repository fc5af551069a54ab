"""Plans against slow references on explicit matrices, their invariances, and the widths that models take from them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from settings import PAPER
from sklearn.utils import check_random_state

import rflaf
from rflaf import LeverageSampling, RFLAFClassifier, RFLAFRegressor, WidthPlan, plan, theory
from rflaf.errors import AssumptionWarning, InvalidParameterError, StopReason
from rflaf.estimators import width_plan as planning
from rflaf.functions.bases import BSplineBasis, fit_function
from rflaf.functions.losses import Huber, Pinball, Poisson, Squared, SquaredHinge
from rflaf.model.greedy import WidthPath
from rflaf.rows.blocks import array_source
from rflaf.rows.executors import ThreadExecutor
from rflaf.training.pools import draw_pool, enough_components
from rflaf.training.problem import Fit, state_problem
from rflaf.training.solvers.shared_activation import LearnedActivation
from rflaf.training.specification import FitSpec

POOL = 150
pytestmark = pytest.mark.usefixtures("one_blas_thread")


@pytest.fixture(scope="module", autouse=True)
def pool_of_150():
    """A smaller pool: the plan is the same function of it, in a tenth of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planning, "approximate_kernel", partial(planning.approximate_kernel, pool_size=POOL))
        yield


@pytest.fixture(scope="module")
def planned(easy) -> WidthPlan:
    return plan(*easy, random_state=0)


@pytest.fixture(scope="module")
def labels(easy):
    """Three classes that the target tells in part, as 0, 1, 2."""
    noisy = easy[1] + np.random.default_rng(1).standard_normal(600)
    return np.digitize(noisy, np.quantile(noisy, [1 / 3, 2 / 3]))


@pytest.fixture(scope="module")
def of_two(easy) -> WidthPlan:
    return plan(easy[0], easy[1] > 1, random_state=0)


@pytest.fixture(scope="module")
def of_three(easy, labels) -> WidthPlan:
    return plan(easy[0], np.array(["low", "middle", "high"])[labels], random_state=0)


def numbers_of(one: WidthPlan):
    """All that a plan says but for the seconds measured, as one array."""
    parts = [one.lam, one.delta, one.effective_dimension, one.spread, one.plain_width, one.leverage_width]
    parts += [one.spectrum.trace, one.spectrum.eigenvalues, one.spectrum.error, one.fit_bytes]
    if one.practice is not None:
        parts += [one.practice.path.errors, one.practice.selection.gcv, one.practice.squared_norm]
    return np.concatenate([np.ravel(part) for part in parts])


def assert_same(one: WidthPlan, other: WidthPlan, rtol: float = 1e-12) -> None:
    assert (one.case, one.n_samples, one.n_features) == (other.case, other.n_samples, other.n_features)
    np.testing.assert_allclose(numbers_of(one), numbers_of(other), rtol=rtol, atol=1e-3 * rtol)


def drawn_pool(X, y, seed: int):
    """The problem and the directions that a plan of this seed starts from."""
    rng = np.random.default_rng(check_random_state(seed).randint(2**31 - 1))
    with ThreadExecutor(1) as executor:
        problem = state_problem(array_source(X, y), Squared(), True, rng, executor)
        return problem, draw_pool(Fit(problem, FitSpec(POOL), rng, executor))[1]


def some_activation(function) -> LearnedActivation:
    a = fit_function(BSplineBasis(), function)
    return LearnedActivation(a, np.zeros((a.size, a.size)), np.zeros(1), StopReason.NOTHING_TO_LEARN, "given")


# What a plan says


def test_without_a_target_the_kernel_is_that_of_tanh_and_its_numbers_are_those_of_its_gram_matrix(easy):
    """All from the n x n matrix, for tanh itself instead of the spline that is fitted to it."""
    X, y = easy
    answer = plan(X, random_state=0)
    _, pool = drawn_pool(X, np.zeros_like(y), 0)
    Z = np.tanh(X @ pool.W + pool.offset)
    Z /= np.sqrt(np.mean(Z**2))
    n, K = len(X), Z @ Z.T / POOL
    inverse = np.linalg.inv(K + n * answer.lam * np.eye(n))
    scores = np.einsum("ni,ni->i", Z, inverse @ Z)
    assert answer.lam == n**-0.5
    assert answer.effective_dimension == pytest.approx(np.trace(K @ inverse), rel=0.01)
    assert answer.spread == pytest.approx(scores.max() / scores.mean(), rel=0.02)
    np.testing.assert_allclose(answer.spectrum.eigenvalues[:10], theory.spectrum_of_gram(K)[:10], rtol=0.02)
    assert answer.leverage_width == theory.leverage_width(answer.effective_dimension, 0.1)
    bound = np.tanh(BSplineBasis().interval[1]) / np.sqrt(np.mean(np.tanh(X @ pool.W + pool.offset) ** 2))
    expected = theory.plain_width(bound, answer.lam, answer.effective_dimension, 0.1)
    assert answer.plain_width == pytest.approx(expected, rel=0.02)


def test_the_parts_of_a_plan_agree(easy, planned):
    assert (planned.n_samples, planned.n_features) == easy[0].shape
    assert planned.case == "squared"
    assert planned.lam == 600**-0.5
    assert planned.epsilon == pytest.approx(4 * planned.lam)
    assert planned.spectrum.trace == pytest.approx(1, rel=1e-6)  # an activation of mean square one
    assert (planned.spectrum.n_rows, planned.spectrum.n_components) == (600, POOL)
    assert planned.effective_dimension == planned.spectrum.effective_dimension(planned.lam)
    assert planned.leverage_width == theory.leverage_width(planned.effective_dimension, 0.1)
    assert planned.decay == planned.spectrum.decay
    d, mass = planned.effective_dimension, planned.bound**2 / planned.lam
    assert planned.widths("one-sided") == (theory.one_sided_width(mass, d, 0.1), theory.one_sided_width(d, d, 0.1))
    assert planned.widths("two-sided") == (theory.bernstein_width(mass, d, 0.1), theory.bernstein_width(d, d, 0.1))
    at = planned.lam, d
    assert planned.algorithm_widths == theory.algorithm_widths(planned.bound, *at, *at, 0.1)
    assert len(repr(planned)) < 200


def test_the_largest_score_is_below_the_bound_of_plain_sampling(planned, of_two, of_three):
    for one in (planned, of_two, of_three):
        assert one.spread >= 1
        assert one.spread * (one.leverage_width - 1) <= one.plain_width


def test_the_table_shows_the_plan(planned):
    rows = {name: (value, meaning) for name, value, meaning in planned.table()}
    assert list(rows) == [
        "rows x columns",
        "lambda",
        "effective dimension",
        "decay of the spectrum",
        "theory, plain sampling",
        "theory, leverage sampling",
        "theory, one-sided",
        "theory, two-sided",
        "theory, Algorithm 1",
        "spread of the scores",
        "enough, plain sampling",
        "enough, chosen greedily",
        "squared norm",
        "time of a fit",
        "memory of a fit",
    ]
    assert rows["rows x columns"][0] == "600 x 3"
    assert float(rows["lambda"][0]) == pytest.approx(planned.lam, rel=1e-3)
    assert "sampling error 0.163 of the variance, delta 0.1" in rows["lambda"][1]
    assert float(rows["effective dimension"][0]) == pytest.approx(planned.effective_dimension, abs=0.05)
    assert rows["effective dimension"][1] == "from 600 rows and 150 directions"
    assert rows["decay of the spectrum"][0] == planned.decay.case
    assert planned.decay.law in rows["decay of the spectrum"][1]
    assert rows["theory, plain sampling"][0] == f"{planned.plain_width:,}"
    assert rows["theory, leverage sampling"][0] == f"{planned.leverage_width:,}"
    assert float(rows["spread of the scores"][0]) == pytest.approx(planned.spread, abs=0.05)
    assert rows["spread of the scores"][1] == planned.advice == theory.leverage_advice(planned.spread)
    for claim in ("one-sided", "two-sided"):
        plain, leverage = planned.widths(claim)
        assert rows[f"theory, {claim}"][0] == f"{plain:,} / {leverage:,}"
    pair = planned.algorithm_widths
    assert rows["theory, Algorithm 1"] == (
        f"{pair.pool_size:,} / {pair.n_components:,}",
        "pool s / draws S of Theorem 4.1, constant 8",
    )
    assert rows["enough, plain sampling"][0].startswith(f"{planned.enough_plain}")
    assert rows["enough, plain sampling"][1] == "within 1% of the lowest error on rows held out"
    assert rows["enough, chosen greedily"][0].startswith(f"{planned.enough_greedy}")
    assert float(rows["squared norm"][0]) == pytest.approx(planned.practice.squared_norm, rel=0.01)
    assert rows["time of a fit"][0].endswith(" s")
    assert rows["memory of a fit"][0].endswith(" MiB")


def test_the_widest_width_tried_may_not_be_enough(planned):
    widths, errors = np.array([1, 5, 20]), np.array([1.0, 0.5, 0.2])
    practice = replace(planned.practice, path=WidthPath(widths, errors))
    assert dict_of(replace(planned, practice=practice))["enough, plain sampling"] == "20 or more"
    practice = replace(planned.practice, path=WidthPath(widths, errors[::-1]))
    assert dict_of(replace(planned, practice=practice))["enough, plain sampling"] == "1"


def dict_of(one: WidthPlan) -> dict[str, str]:
    return {name: value for name, value, _ in one.table()}


def test_a_printed_plan_is_its_table_in_columns(planned):
    lines = str(planned).splitlines()
    assert len(lines) == len(planned.table())
    for line, (name, value, meaning) in zip(lines, planned.table(), strict=True):
        assert line.startswith(name)
        assert value in line
        assert line.endswith(meaning)
        assert line == line.rstrip()
    assert (
        len({line.index(meaning) for line, (*_, meaning) in zip(lines, planned.table(), strict=True) if meaning}) == 1
    )


@pytest.mark.parametrize(("size", "words"), [(5 * 2**20, "5 MiB"), (3 * 2**30, "3.0 GiB")])
def test_memory_is_told_in_units_that_fit_it(planned, size, words):
    assert dict_of(replace(planned, fit_bytes=size))["memory of a fit"] == words


def test_memory_and_time_are_above_zero_and_memory_grows_with_the_width_that_is_enough(easy, planned):
    X, y = easy
    assert planned.practice.fit_seconds > 0
    assert planned.fit_bytes > 0
    narrow = plan(X, y, width_tolerance=1e4, random_state=0)
    assert narrow.enough_plain == 1
    assert narrow.enough_greedy == 1
    assert 0 < narrow.fit_bytes < planned.fit_bytes


def test_a_larger_tolerance_asks_for_less(planned):
    widths = [
        (one.enough_plain, one.enough_greedy)
        for one in (replace(planned, width_tolerance=t) for t in (0, 0.01, 0.1, 1))
    ]
    for narrower, wider in zip(widths[1:], widths[:-1], strict=True):
        assert narrower[0] <= wider[0]
        assert narrower[1] <= wider[1]


def test_the_curve_of_the_effective_dimension_falls_and_passes_through_the_plan(planned):
    lams, dimensions = planned.dimensions()
    assert lams.shape == dimensions.shape == (61,)
    assert (lams[0], lams[-1]) == pytest.approx((1e-6, 1.0))
    assert np.all(np.diff(dimensions) < 0)
    assert dimensions[0] <= POOL
    assert np.interp(planned.lam, lams, dimensions) == pytest.approx(planned.effective_dimension, rel=0.02)


def test_epsilon_sets_lambda_and_delta_the_promise(easy, planned):
    X, y = easy
    finer = plan(X, y, epsilon=0.04, delta=0.01, random_state=0)
    assert (finer.lam, finer.epsilon, finer.delta) == pytest.approx((0.01, 0.04, 0.01))
    assert finer.effective_dimension == pytest.approx(planned.spectrum.effective_dimension(0.01), rel=1e-9)
    assert finer.leverage_width == theory.leverage_width(finer.effective_dimension, 0.01)
    assert finer.plain_width > planned.plain_width
    assert finer.enough_plain == planned.enough_plain  # practice knows nothing of delta
    surer = plan(X, y, delta=0.01, random_state=0)
    assert surer.effective_dimension == planned.effective_dimension
    assert surer.leverage_width > planned.leverage_width


def test_a_lipschitz_loss_takes_the_square_of_epsilon(easy):
    X, y = easy
    answer = plan(X, y > 1, epsilon=0.4, random_state=0)
    assert (answer.case, answer.lam) == ("lipschitz", pytest.approx(0.01))
    assert answer.epsilon == pytest.approx(0.4)


def test_a_lambda_above_the_first_eigenvalue_is_warned_about(easy):
    with pytest.warns(AssumptionWarning, match=r"lambda = 0\.247 is above the largest eigenvalue"):
        plan(*easy, epsilon=0.99, random_state=0)


# What must not change a plan


def test_a_seed_gives_one_plan_whatever_the_threads(easy, planned):
    assert_same(plan(*easy, random_state=0, n_jobs=2), planned)
    assert_same(plan(*easy, random_state=np.random.RandomState(0)), planned)
    seed = np.random.RandomState(0).randint(2**31 - 1)
    assert_same(plan(*easy, random_state=np.random.default_rng(seed)), planned)
    other = plan(*easy, random_state=1)
    assert other.effective_dimension != planned.effective_dimension
    assert other.effective_dimension == pytest.approx(planned.effective_dimension, rel=0.2)


def test_more_rows_than_a_block_give_one_plan_whatever_the_threads():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((5000, 2))
    y = np.abs(X[:, 0]) + rng.standard_normal(5000)
    one, two = (plan(X, y, random_state=0, n_jobs=n_jobs) for n_jobs in (1, 2))
    assert_same(one, two)
    assert one.spectrum.n_rows == 4000


def test_single_precision_gives_nearly_the_same_plan(easy, planned):
    X, y = easy
    single = plan(X.astype(np.float32), y, random_state=0)
    assert single.effective_dimension == pytest.approx(planned.effective_dimension, rel=0.02)
    assert single.leverage_width == pytest.approx(planned.leverage_width, rel=0.03)
    assert single.decay.case == planned.decay.case
    assert single.spread == pytest.approx(planned.spread, rel=0.05)


def test_the_unit_of_the_target_does_not_matter(easy, planned):
    X, y = easy
    assert_same(plan(X, 1e3 * y - 7, random_state=0), planned, rtol=1e-4)


def test_frames_give_the_plan_of_their_numbers(easy, planned, labels, of_three):
    pd = pytest.importorskip("pandas")
    X, y = easy
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    assert_same(
        plan(frame, pd.Series(y), random_state=0), planned, rtol=1e-8
    )  # columns come in another order of memory
    words = pd.Series(np.array(["low", "middle", "high"])[labels], dtype="category")
    assert_same(plan(frame, words, random_state=0), of_three, rtol=1e-4)


@pytest.mark.parametrize("names", [(0, 1), (-1.0, 1.0), ("no", "yes"), (7, 8)])
def test_two_labels_are_a_classification_whatever_they_are_called(easy, of_two, names):
    X, y = easy
    assert of_two.case == "lipschitz"
    assert_same(plan(X, np.array(names)[(y > 1).astype(int)], random_state=0), of_two)


def test_labels_in_a_column_are_labels(easy, of_two):
    X, y = easy
    assert_same(plan(X, np.array(["no", "yes"])[(y > 1).astype(int)][:, None], random_state=0), of_two)


def test_three_words_are_a_classification_and_three_numbers_are_one_if_asked(easy, labels, of_three):
    X, _ = easy
    assert of_three.case == "lipschitz"
    in_order_of_words = np.array([1, 2, 0])[labels]  # high, low, middle
    assert_same(plan(X, in_order_of_words, loss="log_loss", random_state=0), of_three)
    assert plan(X, in_order_of_words, random_state=0).case == "squared"


@pytest.mark.parametrize(
    ("loss", "case"),
    [("squared", "squared"), (Squared(), "squared"), (Huber(1.0), "lipschitz"), (Pinball(0.9), "lipschitz")],
)
def test_a_loss_may_be_given(easy, loss, case):
    X, y = easy
    answer = plan(X, np.abs(y), loss=loss, random_state=0)
    assert answer.case == case
    assert answer.enough_plain >= 1


@pytest.mark.parametrize("loss", [Poisson(), SquaredHinge()], ids=["poisson", "squared hinge"])
@pytest.mark.parametrize("with_target", [True, False])
def test_a_loss_that_no_theorem_covers_is_refused(easy, loss, with_target):
    X, y = easy
    with pytest.raises(InvalidParameterError, match="needs the squared loss or one with a Lipschitz constant"):
        plan(X, (y > 1).astype(float) if with_target else None, loss=loss)


def test_the_lipschitz_constant_is_that_of_targets_of_variance_one(easy):
    X, y = easy
    answer = plan(X, 10 * y, loss=Huber(5.0), epsilon=0.4, random_state=0)
    assert answer.lipschitz == pytest.approx(2 * 5.0 / (10 * y.std()), rel=1e-6)
    assert answer.lam == pytest.approx((0.4 / 4 / answer.lipschitz) ** 2)
    assert answer.epsilon == pytest.approx(0.4)


def test_several_targets_are_planned_for_together(easy):
    X, y = easy
    answer = plan(X, np.column_stack([y, X[:, 0], -y]), random_state=0)
    assert answer.case == "squared"
    assert 1 <= answer.enough_plain <= POOL


def test_without_a_target_nothing_is_said_of_practice(easy):
    answer = plan(easy[0], random_state=0)
    assert (answer.practice, answer.enough_plain, answer.enough_greedy) == (None, None, None)
    names = [row[0] for row in answer.table()]
    assert not {"enough, plain sampling", "squared norm", "time of a fit"} & set(names)
    assert "memory of a fit" in names
    assert str(answer)
    assert answer.fit_bytes > 0


@pytest.mark.parametrize(("loss", "case"), [("auto", "squared"), ("log_loss", "lipschitz"), (Huber(), "lipschitz")])
def test_without_a_target_the_loss_still_says_which_theorem_holds(easy, loss, case):
    answer = plan(easy[0], loss=loss, epsilon=0.2, random_state=0)
    lipschitz = 2.7 if isinstance(loss, Huber) else 1.0
    assert (answer.case, answer.lam) == (case, theory.lambda_for(case, 0.2, lipschitz))


# Awkward tables


@pytest.mark.parametrize(
    "make",
    [
        lambda X, y: (np.full_like(X, 4.2), y),
        lambda X, y: (X, np.full_like(y, 7.0)),
        lambda X, y: (np.repeat(X[:3], 40, axis=0), np.repeat(y[:3], 40)),
        lambda X, y: (X[:30], y[:30]),
        lambda X, y: (X[:, :1], y),
    ],
    ids=["constant columns", "constant target", "three rows repeated", "thirty rows", "one column"],
)
def test_tables_with_little_in_them_have_a_plan(easy, make):
    answer = plan(*make(*easy), random_state=0)
    assert answer.case == "squared"
    assert answer.effective_dimension > 0
    assert answer.enough_plain >= 1
    assert np.isfinite(answer.practice.squared_norm)
    assert "nan" not in str(answer)


def test_a_constant_target_needs_one_component(easy):
    assert plan(easy[0], np.zeros(600), random_state=0).enough_plain == 1


# The width that is enough


@pytest.mark.parametrize("k", [5, 10, 20])
def test_a_target_of_k_plain_components_needs_k(k):
    rng = np.random.default_rng(k)
    X = rng.standard_normal((2500, 6))
    _, pool = drawn_pool(X, np.zeros(2500), 0)
    f = np.tanh(X @ pool.W[:, :k] + pool.offset[:k]) @ (rng.choice([-1, 1], k) * rng.uniform(0.5, 1.5, k))
    problem, pool = drawn_pool(X, f / f.std() + 0.3 * rng.standard_normal(2500), 0)
    with ThreadExecutor(1) as executor:
        path = enough_components(Fit(problem, FitSpec(POOL), rng, executor), pool, some_activation(np.tanh))
    assert k <= path.best_width(0.01) <= 1.5 * k
    assert path.widths[-1] == POOL


def test_rows_that_are_all_the_same_need_one_component():
    X = np.tile([1.0, 2.0], (30, 1))
    problem, pool = drawn_pool(X, np.random.default_rng(0).standard_normal(30), 0)
    with ThreadExecutor(1) as executor:
        fit = Fit(problem, FitSpec(POOL), np.random.default_rng(0), executor)
        path = enough_components(fit, pool, some_activation(np.tanh))
    assert np.isfinite(path.errors).all()
    assert path.best_width(0.01) == 1


@pytest.fixture(scope="module")
def smooth():
    """A smooth function of four columns with noise: X (3000, 4), y (3000,), the second half to test on."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((3000, 4))
    return X, np.sin(X[:, 0] + X[:, 1]) + np.tanh(2 * X[:, 2]) * X[:, 3] + 0.5 * rng.standard_normal(3000)


def mean_square(model, X, y) -> float:
    return float(np.mean((model.predict(X) - y) ** 2))


@pytest.mark.slow
@pytest.mark.parametrize("sampling", ["plain", LeverageSampling(600)], ids=["plain", "leverage"])
def test_an_automatic_width_is_nearly_as_good_as_the_widest(smooth, sampling):
    X, y = smooth
    train, test = slice(0, 1500), slice(1500, None)
    arguments = {**PAPER, "sampling": sampling, "random_state": 0}
    chosen = RFLAFRegressor("auto", **arguments).fit(X[train], y[train])
    widest = RFLAFRegressor(500, **arguments).fit(X[train], y[train])
    assert 1 <= chosen.n_components_ < 500
    assert mean_square(chosen, X[test], y[test]) <= 1.05 * mean_square(widest, X[test], y[test])


@pytest.mark.slow
def test_an_automatic_width_is_like_that_of_a_plan(smooth, monkeypatch):
    X, y = smooth
    monkeypatch.setattr(planning, "approximate_kernel", partial(planning.approximate_kernel, pool_size=500))
    answer = plan(X[:1500], y[:1500], random_state=0)
    chosen = RFLAFRegressor("auto", **PAPER, random_state=0).fit(X[:1500], y[:1500])
    assert answer.enough_plain / 4 <= chosen.n_components_ <= 4 * answer.enough_plain
    fitted = RFLAFRegressor(answer.enough_plain, **PAPER, random_state=1).fit(X[:1500], y[:1500])
    widest = RFLAFRegressor(500, **PAPER, random_state=1).fit(X[:1500], y[:1500])
    assert mean_square(fitted, X[1500:], y[1500:]) <= 1.05 * mean_square(widest, X[1500:], y[1500:])


@pytest.mark.slow
def test_a_classifier_takes_an_automatic_width(easy, labels):
    X, _ = easy
    model = RFLAFClassifier("auto", **PAPER, random_state=0).fit(X, labels)
    assert 1 <= model.n_components_ <= 500
    assert model.score(X, labels) > 0.6


@pytest.mark.parametrize("n_rows", [3, 30])
def test_an_automatic_width_needs_no_rows_to_hold_out(n_rows):
    X = np.tile([1.0, 2.0], (n_rows, 1))
    y = np.arange(float(n_rows))
    model = RFLAFRegressor("auto", **PAPER, random_state=0).fit(X, y)
    assert model.n_components_ == 1
    np.testing.assert_allclose(model.predict(X[:1]), y.mean())


# What is refused


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"delta": 0.0}, r"delta must lie between 0 and 1, without either; got 0\.0\. Try 0\.1\."),
        ({"delta": 1.0}, "delta must lie between 0 and 1"),
        ({"epsilon": 0.0}, "epsilon must lie between 0 and 1"),
        ({"epsilon": 1.5}, "epsilon must lie between 0 and 1"),
        ({"epsilon": np.nan}, "epsilon must lie between 0 and 1"),
        (
            {"width_tolerance": -0.1},
            r"width_tolerance must be a number, at least zero; got -0\.1\. The default is 0\.01\.",
        ),
        ({"width_tolerance": np.nan}, "width_tolerance must be a number, at least zero; got nan"),
        ({"loss": "hinge"}, r"loss must be 'auto', 'squared', 'log_loss' or a Loss object; got 'hinge'\. Use 'auto'\."),
        ({"loss": None}, "loss must be 'auto', 'squared', 'log_loss' or a Loss object; got None"),
        ({"loss": Squared}, "loss must be 'auto', 'squared', 'log_loss' or a Loss object; got <class"),
    ],
)
@pytest.mark.parametrize("with_target", [True, False])
def test_arguments_that_break_a_rule_are_refused(easy, arguments, message, with_target):
    X, y = easy
    with pytest.raises(InvalidParameterError, match=message):
        plan(X, y if with_target else None, **arguments)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X, y: (X, y[:-1]), "inconsistent numbers of samples"),
        (lambda X, y: (X[:19], y[:19]), "a minimum of 20 is required"),
        (lambda X, y: (X[:, 0], y), "Expected 2D array, got 1D array"),
        (lambda X, y: (np.where(np.abs(X) < 0.01, np.nan, X), y), "Input contains NaN"),
        (lambda X, y: (X, np.where(y == y[3], np.nan, y)), "Input contains NaN"),
        (lambda X, y: (X, np.where(y == y[3], np.inf, y)), "Input contains infinity"),
        (lambda X, y: (X, np.full(600, "a")), r"labels must be of two classes or more; got \['a'\]\. Check y\."),
        (
            lambda X, y: (X, np.array([None] + ["a", "b"] * 299 + ["a"])),
            "labels must be of one kind, none missing; got",
        ),
        (lambda X, y: (X.astype(str) + "x", y), "could not convert string to float"),
    ],
)
def test_tables_that_cannot_be_planned_for_are_refused(easy, change, message):
    with pytest.raises(ValueError, match=message):
        plan(*change(*easy))


def test_words_under_a_loss_of_numbers_are_refused(easy):
    words = np.array(["no", "yes"] * 300)
    with pytest.raises(
        InvalidParameterError, match=r"this loss needs a numeric target; got 'no'\. Use loss='log_loss'\."
    ):
        plan(easy[0], words, loss="squared")


def test_targets_outside_the_domain_of_a_loss_are_refused(easy):
    X, y = easy
    with pytest.raises(InvalidParameterError, match="counts must not be negative; got -1"):
        plan(X, y - 10, loss=Poisson())


def test_what_plans_return_is_public():
    assert rflaf.plan is plan
    assert {"plan", "theory", "WidthPlan"} <= set(rflaf.__all__)
