"""Invalid arguments of the theory are refused with the rule, the value and the remedy."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from rflaf import theory
from rflaf.errors import AssumptionWarning, InvalidParameterError
from rflaf.theory import Growth

pytestmark = pytest.mark.usefixtures("one_blas_thread")


# Refusals

GRAM = np.diag([2.0, 1.0])
each_lambda = pytest.mark.parametrize("lam", [0.0, -0.1, np.nan, np.inf])


@each_lambda
@pytest.mark.parametrize(
    "call",
    [
        lambda lam: theory.effective_dimension([1.0], lam),
        lambda lam: theory.effective_dimension([1.0], [0.1, lam]),
        lambda lam: theory.leverage_function(GRAM, GRAM, lam),
        lambda lam: theory.pool_scores([GRAM], lam),
        lambda lam: theory.plain_width(1.0, lam, 1.0, 0.1),
        lambda lam: theory.risk_bound("squared", lam, 0.1, 100, 0.1),
        lambda lam: theory.algorithm_bound("lipschitz", 0.1, lam, 0.1, 100, 0.1),
        lambda lam: theory.gram_deviation(GRAM, GRAM, lam),
        lambda lam: theory.worst_risk(GRAM, GRAM, lam),
    ],
)
def test_a_lambda_that_is_not_positive_is_refused(call, lam):
    with pytest.raises(InvalidParameterError, match=r"lambda must be a number above zero; got .*1 / sqrt\(n\)\."):
        call(lam)


def test_no_lambda_at_all_is_refused():
    with pytest.raises(InvalidParameterError, match="lambda must be a number or several"):
        theory.effective_dimension([1.0], [])


@pytest.mark.parametrize(
    "call",
    [
        lambda lam: theory.effective_dimension([0.5, 0.1], lam),
        lambda lam: theory.effective_dimension([0.5, 0.1], [0.1, lam]),
        lambda lam: theory.leverage_function(np.diag([1.0, 0.2]), np.eye(2), lam),
        lambda lam: theory.pool_scores([np.diag([np.sqrt(2.0), 0.5])], lam),
        lambda lam: theory.gram_deviation(np.diag([1.0, 0.2]), np.eye(2), lam),
        lambda lam: theory.worst_risk(np.diag([1.0, 0.2]), np.eye(2), lam),
    ],
)
def test_a_lambda_above_the_largest_eigenvalue_is_warned_about_in_words(call):
    message = (
        r"lambda = 0\.6 is above the largest eigenvalue 0\.5 of K / n \(Assumption 2\.2\): the penalty is stronger than"
        r" the strongest signal.*Lower lambda\."
    )
    with pytest.warns(AssumptionWarning, match=message) as caught:
        call(0.6)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        call(0.5)  # the assumption includes equality


@pytest.mark.parametrize("delta", [0.0, 1.0, -0.1, 1.5, np.nan])
@pytest.mark.parametrize(
    "call",
    [
        lambda delta: theory.width(1.0, 1.0, delta),
        lambda delta: theory.leverage_width(1.0, delta),
        lambda delta: theory.plain_width(1.0, 0.1, 1.0, delta),
        lambda delta: theory.bernstein_width(1.0, 1.0, delta),
        theory.check_delta,
    ],
)
def test_a_delta_that_is_no_probability_is_refused(call, delta):
    with pytest.raises(
        InvalidParameterError, match=r"delta must lie between 0 and 1, without either; got .*Try 0\.1\."
    ):
        call(delta)


@pytest.mark.parametrize("epsilon", [0.0, 1.0, -0.1, np.nan])
@pytest.mark.parametrize(
    "call",
    [
        lambda e: theory.risk_bound("squared", 0.1, 0.1, 100, e),
        lambda e: theory.algorithm_bound("squared", 0.1, 0.1, 0.1, 100, e),
        lambda e: theory.lambda_for("lipschitz", e),
        lambda e: theory.grid_for("squared", e),
        lambda e: theory.n_samples_for(0.1, e),
    ],
)
def test_an_epsilon_outside_zero_to_one_is_refused(call, epsilon):
    with pytest.raises(InvalidParameterError, match="epsilon must lie between 0 and 1, without either; got"):
        call(epsilon)


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.0, -1.0, np.nan, [0.1, 0.4]])
def test_orders_are_told_only_where_their_logarithms_are_positive(epsilon):
    with pytest.raises(InvalidParameterError, match=r"epsilon must lie between 0 and exp\(-1\); got"):
        Growth("plain", "exponential", 1.0, 0.0, 1.0).order(epsilon)


@pytest.mark.parametrize("mu", [[1.0, -1e-3], [-1.0], [0.0, -1e-30]])
def test_negative_eigenvalues_are_refused(mu):
    message = rf"eigenvalues of a Gram matrix must be at least zero; got {min(mu)}\. The matrix is not positive"
    with pytest.raises(InvalidParameterError, match=message):
        theory.effective_dimension(mu, 0.1)


def test_negative_eigenvalues_of_rounding_are_zeros():
    np.testing.assert_array_equal(theory.check_eigenvalues([1.0, -1e-12]), [1.0, 0.0])
    assert theory.effective_dimension([1.0, -1e-12], 1.0) == 0.5


@pytest.mark.parametrize(
    ("mu", "message"),
    [
        ([], r"eigenvalues must have the shape \(k,\); got \(0,\)"),
        ([[1.0]], r"eigenvalues must have the shape \(k,\); got \(1, 1\)"),
        (1.0, r"eigenvalues must have the shape \(k,\); got \(\)"),
        ([1.0, np.nan], "eigenvalues must be finite; got nan"),
        ([np.inf], "eigenvalues must be finite; got inf"),
    ],
)
def test_what_is_no_list_of_eigenvalues_is_refused(mu, message):
    with pytest.raises(InvalidParameterError, match=message):
        theory.effective_dimension(mu, 0.1)


each_use_of_a_gram_matrix = pytest.mark.parametrize(
    "call",
    [
        theory.spectrum_of_gram,
        lambda K: theory.leverage_function(K, np.ones((2, 1)), 0.1),
        lambda K: theory.gram_deviation(K, np.eye(2), 0.1),
        lambda K: theory.gram_deviation(np.eye(2), K, 0.1),
        lambda K: theory.worst_risk(K, np.eye(2), 0.1),
        lambda K: theory.worst_risk(np.eye(2), K, 0.1),
        lambda K: theory.squared_norm(K, np.ones(2)),
    ],
)


@each_use_of_a_gram_matrix
@pytest.mark.parametrize(
    ("K", "message"),
    [
        ([[1.0, 0.5], [0.4, 1.0]], r"must be symmetric; got 'entries that differ by 0\.1'\. Use \(K \+ K\.T\) / 2\."),
        ([[1.0, 2.0], [2.0, 1.0]], r"eigenvalues of a Gram matrix must be at least zero; got -(1\.0|0\.99).*Z Z'\."),
        ([[0.0, 1.0], [1.0, 0.0]], r"eigenvalues of a Gram matrix must be at least zero; got -(1\.0|0\.99)"),
        ([[1.0, 0.0], [0.0, -1e-3]], r"eigenvalues of a Gram matrix must be at least zero; got -0\.001"),
        ([[1.0, np.nan], [np.nan, 1.0]], "a Gram matrix must be finite; got nan"),
        ([[np.inf, 0.0], [0.0, 1.0]], "a Gram matrix must be finite; got inf"),
        (np.ones((2, 3)), r"a Gram matrix must be square; got \(2, 3\)\. Pass K of shape \(n, n\)\."),
        (np.ones(2), r"a Gram matrix must be square; got \(2,\)"),
        (np.empty((0, 0)), r"a Gram matrix must be square; got \(0, 0\)"),
    ],
)
def test_what_is_no_gram_matrix_is_refused(call, K, message):
    with pytest.raises(InvalidParameterError, match=message):
        call(K)


@pytest.mark.parametrize("event", [theory.gram_deviation, theory.worst_risk])
@pytest.mark.parametrize("n_rows", [1, 3])
def test_gram_matrices_of_other_rows_are_refused(event, n_rows):
    with pytest.raises(InvalidParameterError, match=r"must be of the same rows, \(2, 2\); got \(., .\)\. Compute"):
        event(GRAM, np.eye(n_rows), 0.1)


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (np.ones(2), r"features must have the shape \(n, m\) with n = 2; got \(2,\)\. Pass one column per direction\."),
        (np.ones((3, 2)), r"features must have the shape \(n, m\) with n = 2; got \(3, 2\)"),
        (np.full((2, 1), np.nan), "features must be finite; got nan"),
    ],
)
def test_features_that_do_not_fit_the_gram_matrix_are_refused(features, message):
    with pytest.raises(InvalidParameterError, match=message):
        theory.leverage_function(GRAM, features, 0.1)


@pytest.mark.parametrize("use", [theory.spectrum_of_features, lambda blocks: theory.pool_scores(blocks, 0.1)])
@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        ([], "features must have at least one row and one column; got None"),
        ([np.empty((0, 3))], r"features must have at least one row and one column; got \(0, 3\)"),
        ([np.empty((3, 0))], r"features must have at least one row and one column; got \(3, 0\)"),
        (
            [np.ones((2, 3)), np.ones((2, 2))],
            r"every block of features must have the shape \(n_rows, s\); got \(2, 2\)",
        ),
        ([np.ones(3)], r"every block of features must have the shape \(n_rows, s\); got \(3,\)"),
        ([np.ones((2, 2)), np.full((1, 2), np.inf)], "features must be finite; got inf"),
    ],
)
def test_blocks_that_are_no_features_are_refused(use, blocks, message):
    with pytest.raises(InvalidParameterError, match=message):
        use(blocks)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.ones(3), r"values must have the shape \(n,\) with n = 2; got \(3,\)"),
        (np.ones((2, 1)), r"values must have the shape \(n,\) with n = 2; got \(2, 1\)"),
        ([1.0, np.nan], "values must be finite; got nan"),
    ],
)
def test_values_that_do_not_fit_the_gram_matrix_are_refused(values, message):
    with pytest.raises(InvalidParameterError, match=message):
        theory.squared_norm(GRAM, values)


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf])
@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda x: theory.width(x, 1.0, 0.1), "mass"),
        (lambda x: theory.width(1.0, x, 0.1), "dimension"),
        (lambda x: theory.bernstein_width(x, 1.0, 0.1), "mass"),
        (lambda x: theory.bernstein_width(1.0, x, 0.1), "dimension"),
        (lambda x: theory.plain_width(x, 0.1, 1.0, 0.1), "bound"),
        (lambda x: theory.risk_bound("squared", 0.1, x, 100, 0.1), "h"),
        (lambda x: theory.risk_bound("squared", 0.1, 0.1, x, 0.1), "n_samples"),
        (lambda x: theory.n_samples_for(x, 0.1), "h"),
    ],
)
def test_sizes_that_are_not_positive_are_refused(call, name, bad):
    with pytest.raises(InvalidParameterError, match=f"{name} must be a number above zero; got "):
        call(bad)


@pytest.mark.parametrize("top", [0.4, 1.1, np.nan])
def test_a_top_that_the_assumption_excludes_is_refused(top):
    with pytest.raises(InvalidParameterError, match=r"top must lie between 1/2 and 1; got"):
        theory.bernstein_width(1.0, 1.0, 0.1, top=top)


def test_an_accuracy_outside_zero_to_one_is_refused():
    with pytest.raises(InvalidParameterError, match="accuracy must lie between 0 and 1"):
        theory.bernstein_width(1.0, 1.0, 0.1, accuracy=1.0)


@pytest.mark.parametrize(
    "call",
    [
        lambda case: theory.risk_bound(case, 0.1, 0.1, 100, 0.1),
        lambda case: theory.algorithm_bound(case, 0.1, 0.1, 0.1, 100, 0.1),
        lambda case: theory.lambda_for(case, 0.1),
        lambda case: theory.grid_for(case, 0.1),
        theory.growth_table,
        theory.render_growth_table,
    ],
)
def test_a_case_the_paper_does_not_have_is_refused(call):
    with pytest.raises(InvalidParameterError, match=r"the case must be 'squared' or 'lipschitz'; got 'hinge'\."):
        call("hinge")
