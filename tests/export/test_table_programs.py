"""Programs of models fitted to tables take the table's own values: numbers, texts, gaps and dates."""

from __future__ import annotations

import ctypes
import shutil
import sqlite3
import subprocess
import sys
from textwrap import indent

import numpy as np
import pandas as pd
import pytest
from test_languages import TOLERANCE, TOOLS

from rflaf import RFLAFClassifier, RFLAFRegressor
from rflaf.export.language_rows import ROW_DIALECTS
from rflaf.export.programs import to_c, to_source
from rflaf.export.table_form import DateField, TextField, form_of

pytestmark = pytest.mark.slow
TOWNS = ["Ulm", "Köln", 'a "quoted" \\ one', "<<body>>", "it's */ done", "日本 🎌", "??="]
SEPARATOR, NOTHING = "\x1f", "\x1e"


def table(n_rows, seed=0):
    """Columns of every kind, with gaps, and names that no language likes."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "Age": rng.normal(40, 10, n_rows),
            "class": rng.choice(["left", "right"], n_rows),
            "a b": rng.choice(TOWNS, n_rows),
            "a_b": np.where(rng.random(n_rows) < 0.3, "rare", "s") + pd.Series(rng.integers(0, 90, n_rows)).astype(str),
            "member*/": rng.random(n_rows) < 0.5,
            "born": pd.Timestamp("1904-02-27") + pd.to_timedelta(rng.integers(0, 60_000, n_rows), unit="D"),
            "seen": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 10**6, n_rows), unit="min"),
        }
    )
    y = frame["Age"] / 10 + 2 * (frame["a b"] == "Ulm") + (frame["class"] == "left") + frame["born"].dt.day_of_year / 99
    for start, name in enumerate(["Age", "a b", "a_b", "born"]):
        frame.loc[start::9, name] = None
    return frame, y


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
    """Other rows, with levels that no fit has seen and spaces around some."""
    frame, _ = table(2000, seed=1)
    frame.loc[5::31, "a b"] = "Oslo"
    frame.loc[6::31, "a b"] = "  Ulm\t"
    frame.loc[7::31, "a_b"] = "NA"
    frame.loc[8::31, "class"] = "neither"
    return frame


def cells(form, frame):
    """Rows of texts: numbers and days since 1970 by `repr`, NaN where missing."""
    columns = []
    for field in form.fields:
        values = frame[field.name]
        if isinstance(field, TextField):
            columns.append([NOTHING if value is None or value != value else str(value) for value in values])
        elif isinstance(field, DateField):
            days = (values - pd.Timestamp("1970-01-01")) / pd.Timedelta(days=1)
            columns.append([repr(float(day)) for day in days])
        else:
            columns.append([repr(float(value)) for value in values])
    return list(zip(*columns, strict=True))


def answers(estimator, frame):
    if isinstance(estimator, RFLAFClassifier):
        return estimator.predict_proba(frame)
    return estimator.predict(frame)[:, None]


def assert_right(found, estimator, frame, tolerance=TOLERANCE):
    wanted = answers(estimator, frame)
    assert np.max(np.abs(found[:, : wanted.shape[1]] - wanted) / wanted.std(axis=0)) < tolerance


MAINS = {
    "js": """const lines = require("fs").readFileSync(0, "utf8").split("\\n").slice(0, -1);
const model = require("./model.js");
console.log(lines.map(line => {{
    const f = line.split("\\x1f"), row = {{}};
{assign}
    return Array.from(model.predictRow(row)).join(" ");
}}).join("\\n"));
""",
    "java": """import java.io.*;
import java.nio.charset.StandardCharsets;
public final class Main {{
    public static void main(String[] none) throws IOException {{
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        StringBuilder out = new StringBuilder();
        for (String line = in.readLine(); line != null; line = in.readLine()) {{
            String[] f = line.split("\\u001f", -1);
            model.Row row = new model.Row();
{assign}
            for (double answer : model.predictRow(row)) out.append(answer).append(' ');
            out.append('\\n');
        }}
        System.out.print(out);
    }}
}}
""",
    "go": """package main

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"

	"example/model"
)

func number(text string) float64 {{
	value, _ := strconv.ParseFloat(text, 64)
	return value
}}

func main() {{
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {{
		f := strings.Split(in.Text(), "\\x1f")
		var row model.Row
{assign}
		for _, answer := range model.PredictRow(row) {{
			fmt.Print(strconv.FormatFloat(answer, 'g', -1, 64), " ")
		}}
		fmt.Println()
	}}
	_ = number
}}
""",
    "rust": """include!("model.rs");
use std::io::BufRead;
fn main() {{
    for line in std::io::stdin().lock().lines() {{
        let line = line.unwrap();
        let f: Vec<&str> = line.split('\\x1f').collect();
        let row = model::Row {{
{assign}
        }};
        let answers: Vec<String> = model::predict_row(&row).iter().map(|answer| answer.to_string()).collect();
        println!("{{}}", answers.join(" "));
    }}
}}
""",
}
ASSIGN = {
    "js": (
        "row[{name}] = f[{at}] === 'nan' ? null : Number(f[{at}]);",
        "row[{name}] = f[{at}] === '\\x1e' ? null : f[{at}];",
    ),
    "java": (
        'row.{label} = f[{at}].equals("nan") ? Double.NaN : Double.parseDouble(f[{at}]);',
        'row.{label} = f[{at}].equals("\\u001e") ? null : f[{at}];',
    ),
    "go": ("row.{label} = number(f[{at}])", 'row.{label} = strings.Trim(f[{at}], "\\x1e")'),
    "rust": (
        "{label}: f[{at}].parse().unwrap(),",
        "{label}: if f[{at}] == \"\\x1e\" {{ None }} else {{ Some(f[{at}]) }},",
    ),
}  # fmt: skip
BUILD = {"java": ["javac", "Main.java"], "go": ["go", "build", "-o", "main", "."], "rust": ["rustc", "main.rs"]}
FILES = {"js": ("model.js", "main.js"), "java": ("model.java", "Main.java"), "go": ("model/model.go", "main.go"),
         "rust": ("model.rs", "main.rs")}  # fmt: skip


@pytest.mark.parametrize("kind", ["numbers", "labels"])
@pytest.mark.parametrize("language", TOOLS)
def test_programs_take_the_values_of_the_table(fitted, fresh, language, kind, tmp_path):
    if not shutil.which(TOOLS[language]):
        pytest.skip(f"needs {TOOLS[language]}")
    model = fitted[kind]
    form, name = form_of(model.table_encoding_), ROW_DIALECTS[language].name
    lines = [
        ASSIGN[language][isinstance(field, TextField)].format(label=name(field.label), name=repr(field.name), at=at)
        for at, field in enumerate(form.fields)
    ]
    source, main = FILES[language]
    (tmp_path / source).parent.mkdir(exist_ok=True)
    (tmp_path / source).write_text(to_source(model, language=language, name="model"))
    (tmp_path / main).write_text(MAINS[language].format(assign=indent("\n".join(lines), " " * 8)))
    (tmp_path / "go.mod").write_text("module example\n\ngo 1.18\n")
    if language in BUILD:
        done = subprocess.run(BUILD[language], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    command = {"js": ["node", "main.js"], "java": ["java", "Main"]}.get(language, ["./main"])
    given = "".join(SEPARATOR.join(row) + "\n" for row in cells(form, fresh))
    done = subprocess.run(command, cwd=tmp_path, input=given.encode(), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert_right(np.array([line.split() for line in done.stdout.decode().splitlines()], float), model, fresh)


@pytest.mark.skipif(sys.platform != "linux" or not shutil.which("gcc"), reason="needs gcc on Linux")
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 3e-5), (np.float64, TOLERANCE)])
@pytest.mark.parametrize("kind", ["numbers", "labels"])
def test_c_takes_a_struct_of_the_columns(fitted, fresh, kind, dtype, tolerance, tmp_path):
    model = fitted[kind]
    real = "float" if dtype is np.float32 else "double"
    (tmp_path / "model.h").write_text(to_c(model, name="model", dtype=dtype), encoding="ascii")
    source = '#include "model.h"\nvoid one(const struct model_row *row, REAL *out);\n'
    source += "void one(const struct model_row *row, REAL *out) { model_predict_row(row, out); }\n"
    source += "double day(int y, int m, int d);\n"
    source += "double day(int y, int m, int d) { return model_days(y, m, d, 12.0); }\n"
    (tmp_path / "model.c").write_text(source.replace("REAL", real))
    strict = ["-O1", "-Wall", "-Wextra", "-Werror", "-std=c99", "-fPIC", "-shared"]
    subprocess.run(["gcc", *strict, "model.c", "-o", "model.so", "-lm"], cwd=tmp_path, check=True)
    library, form = ctypes.CDLL(str(tmp_path / "model.so")), form_of(model.table_encoding_)
    c_real = ctypes.c_float if dtype is np.float32 else ctypes.c_double

    def kind_of(field):
        return (
            ctypes.c_char_p
            if isinstance(field, TextField)
            else ctypes.c_double
            if isinstance(field, DateField)
            else c_real
        )

    class Row(ctypes.Structure):
        _fields_ = [(field.label, kind_of(field)) for field in form.fields]

    out, found = (c_real * 3)(), []
    for row in cells(form, fresh):
        values = [
            (None if text == NOTHING else text.encode()) if isinstance(field, TextField) else float(text)
            for field, text in zip(form.fields, row, strict=True)
        ]
        library.one(ctypes.byref(Row(*values)), out)
        found.append(list(out))
    assert_right(np.array(found), model, fresh, tolerance)
    library.day.restype = ctypes.c_double
    for date in ("1969-12-31", "2000-02-29", "1900-03-01", "0001-01-01", "2399-12-31"):
        year, month, day = map(int, date.split("-"))
        assert library.day(year, month, day) == np.datetime64(date, "D").astype(int) + 0.5


def records(form, frame):
    """Rows of SQL values: days since 1970 for dates, None where missing."""
    for row in cells(form, frame):
        yield [
            (None if text == NOTHING else text)
            if isinstance(field, TextField)
            else (None if text == "nan" else float(text))
            for field, text in zip(form.fields, row, strict=True)
        ]


@pytest.mark.parametrize("database", ["sqlite", "duckdb"])
@pytest.mark.parametrize("kind", ["numbers", "labels"])
def test_sql_takes_the_columns_of_the_table(fitted, fresh, database, kind):
    model = fitted[kind]
    form = form_of(model.table_encoding_)
    connection = sqlite3.connect(":memory:") if database == "sqlite" else pytest.importorskip("duckdb").connect()
    columns = [f'"{field.name}" {"VARCHAR" if isinstance(field, TextField) else "DOUBLE"}' for field in form.fields]
    places = ", ".join("?" * len(columns))
    frame = fresh.head(60 if database == "sqlite" else 400).replace(
        {"a b": "  Ulm\t"}, "  Ulm "
    )  # SQL trims spaces alone
    connection.execute(f"CREATE TABLE model ({', '.join(columns)})")
    connection.executemany(f"INSERT INTO model VALUES ({places})", list(records(form, frame)))
    found = np.array(connection.execute(to_source(model, language="sql", name="model")).fetchall(), object)
    n_answers = answers(model, frame).shape[1]
    assert_right(found[:, len(columns) : len(columns) + n_answers].astype(float), model, frame)
    if kind == "labels":
        assert found[:, -1].tolist() == model.predict(frame).tolist()


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
