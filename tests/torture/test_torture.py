"""A few hostile cases of every run of the tests; `make torture` runs ten thousand."""

from __future__ import annotations

import os

import pytest
from cases import cases, check
from hypothesis import HealthCheck, given, settings
from mixed_tables import check_table, table_cases


@pytest.mark.slow
@settings(
    max_examples=int(os.environ.get("RFLAF_TORTURE", "70")),
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
@given(cases())
def test_hostile_data_give_finite_predictions_or_a_documented_error(case):
    check(case)


@pytest.mark.slow
@settings(
    max_examples=int(os.environ.get("RFLAF_TORTURE", "30")),
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
@given(table_cases())
def test_hostile_tables_give_right_answers_or_a_documented_error(case):
    check_table(case)
