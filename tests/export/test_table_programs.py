"""Programs of models fitted to tables take the table's own values: numbers, texts, gaps and dates."""

from __future__ import annotations

import ctypes
import os
import shutil
import sys

import numpy as np
import pytest
from row_programs import TOOLS, absent, fresh_table, run_program, table
from test_languages import TOLERANCE

from rflaf import RFLAFClassifier, RFLAFRegressor
from rflaf.export.table_form import form_of

pytestmark = pytest.mark.slow
N_ROWS = int(os.environ.get("RFLAF_PROGRAM_ROWS", "2000"))  # 10,000 before a release


@pytest.fixture(scope="module")
def fitted():
    frame, y = table(1500)
    options = {"directions": "random", "random_state": 0}
    return {
        "numbers": RFLAFRegressor(8, **options).fit(frame, y),
        "labels": RFLAFClassifier(8, **options).fit(frame[["class", "a_b"]], np.where(y > y.median(), "up", "down")),
    }


@pytest.fixture(scope="module")
def fresh():
    return fresh_table(N_ROWS)


def answers(estimator, frame):
    if isinstance(estimator, RFLAFClassifier):
        return estimator.predict_proba(frame)
    return estimator.predict(frame)[:, None]


def assert_right(found, estimator, frame, tolerance=TOLERANCE):
    wanted = answers(estimator, frame)
    assert np.max(np.abs(found[:, : wanted.shape[1]] - wanted) / wanted.std(axis=0)) < tolerance


@pytest.mark.parametrize("kind", ["numbers", "labels"])
@pytest.mark.parametrize("target", TOOLS)
def test_programs_take_the_values_of_the_table(fitted, fresh, target, kind, tmp_path):
    lacking = absent(target)
    if lacking:
        pytest.skip(f"needs {lacking}")
    model = fitted[kind]
    found = run_program(target, model, fresh, tmp_path).answers
    assert len(found) == len(fresh)
    n_answers = answers(model, fresh).shape[1]
    assert_right(found[:, :n_answers].astype(float), model, fresh, 3e-5 if target == "c" else TOLERANCE)
    if kind == "labels" and target in ("sqlite", "duckdb"):
        assert found[:, -1].tolist() == model.predict(fresh).tolist()


@pytest.mark.skipif(sys.platform != "linux" or not shutil.which("gcc"), reason="needs gcc on Linux")
def test_days_of_a_date_are_counted_in_c(fitted, fresh, tmp_path):
    run_program("c", fitted["numbers"], fresh.head(1), tmp_path)
    library = ctypes.CDLL(str(tmp_path / "model.so"))
    library.day.restype = ctypes.c_double
    for date in ("1969-12-31", "2000-02-29", "1900-03-01", "0001-01-01", "2399-12-31"):
        year, month, day = map(int, date.split("-"))
        assert library.day(year, month, day) == np.datetime64(date, "D").astype(int) + 0.5


def test_the_form_is_the_encoding(fitted, fresh):
    """Every word's row of numbers is what the encoding gives a table of that word."""
    model = fitted["numbers"]
    form, encoded = form_of(model.table_encoding_), model.table_encoding_.transform(fresh)
    for field in form.texts:
        words = dict(zip(field.words, field.encoded, strict=False))
        *_, other, missing = field.encoded
        for text, row in zip(fresh[field.name], encoded, strict=True):
            absent = text is None or text != text
            wanted = missing if absent else words.get(text.strip(), other)
            assert np.array_equal(row[field.first : field.first + wanted.size], wanted)
