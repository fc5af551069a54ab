"""Programs of models fitted to tables, built and run: what tests and benchmarks of every target share."""

from __future__ import annotations

import ctypes
import shutil
import sqlite3
import subprocess
from dataclasses import dataclass
from pathlib import Path
from textwrap import indent
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd

from rflaf.export.language_rows import ROW_DIALECTS
from rflaf.export.programs import to_c, to_source
from rflaf.export.table_form import DateField, TextField, form_of

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
            "paid": pd.Timestamp("2023-09-01") + pd.to_timedelta(rng.integers(0, 300_000, n_rows), unit="min"),
            "noon": pd.Timestamp("2024-02-29") + pd.to_timedelta(rng.integers(0, 1440, n_rows), unit="min"),
        }
    )
    y = frame["Age"] / 10 + 2 * (frame["a b"] == "Ulm") + (frame["class"] == "left") + frame["born"].dt.day_of_year / 99
    for start, name in enumerate(["Age", "a b", "a_b", "born"]):
        frame.loc[start::9, name] = None
    return frame, y


def fresh_table(n_rows):
    """Other rows, with levels that no fit has seen, spaces around some, and dates before and after those of a fit."""
    frame, _ = table(n_rows, seed=1)
    frame.loc[5::31, "a b"] = "Oslo"
    frame.loc[6::31, "a b"] = "  Ulm\t"
    frame.loc[7::31, "a_b"] = "NA"
    frame.loc[8::31, "class"] = "neither"
    frame.loc[9::31, "born"] -= pd.Timedelta(days=50_000)
    frame.loc[10::31, "seen"] += pd.Timedelta(days=4_000)
    frame["paid"] += pd.to_timedelta(np.arange(n_rows) * 13 % 2_000 - 900, unit="D")
    frame.loc[11::31, "noon"] += pd.Timedelta(days=400)
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


TOOLS = {
    "c": "gcc",
    "c, double": "gcc",
    "js": "node",
    "java": "javac",
    "go": "go",
    "rust": "rustc",
    "sqlite": None,
    "duckdb": None,
}


@dataclass(frozen=True)
class Run:
    """Answers (n_rows, n_answers), characters of the source, and seconds to compile it."""

    answers: np.ndarray
    size: int
    seconds: float


def absent(target: str) -> str | None:
    """Return what a target lacks here, or None."""
    if target == "duckdb":
        try:
            import duckdb  # noqa: F401
        except ImportError:
            return "duckdb"
    tool = TOOLS[target]
    return tool if tool is not None and not shutil.which(tool) else None


def run_program(target: str, model: Any, frame: pd.DataFrame, folder: Path) -> Run:
    """Write the program of a model for a target, compile it, and let it answer the rows of a table."""
    if target.startswith("c"):
        return _run_c(model, frame, folder, np.float64 if "double" in target else np.float32)
    return _run_sql(target, model, frame) if TOOLS[target] is None else _run_language(target, model, frame, folder)


def _compile(command: list[str], folder: Path) -> float:
    started = perf_counter()
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return perf_counter() - started


def _run_language(language: str, model: Any, frame: pd.DataFrame, folder: Path) -> Run:
    form, name = form_of(model.table_encoding_), ROW_DIALECTS[language].name
    lines = [
        ASSIGN[language][isinstance(field, TextField)].format(label=name(field.label), name=repr(field.name), at=at)
        for at, field in enumerate(form.fields)
    ]
    source, main = FILES[language]
    text = to_source(model, language=language, name="model")
    (folder / source).parent.mkdir(exist_ok=True)
    (folder / source).write_text(text)
    (folder / main).write_text(MAINS[language].format(assign=indent("\n".join(lines), " " * 8)))
    (folder / "go.mod").write_text("module example\n\ngo 1.18\n")
    seconds = _compile(BUILD[language], folder) if language in BUILD else 0.0
    command = {"js": ["node", "main.js"], "java": ["java", "Main"]}.get(language, ["./main"])
    given = "".join(SEPARATOR.join(row) + "\n" for row in cells(form, frame))
    done = subprocess.run(command, cwd=folder, input=given.encode(), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return Run(np.array([line.split() for line in done.stdout.decode().splitlines()], float), len(text), seconds)


def _run_c(model: Any, frame: pd.DataFrame, folder: Path, dtype: Any) -> Run:
    real, c_real = ("float", ctypes.c_float) if dtype is np.float32 else ("double", ctypes.c_double)
    header = to_c(model, name="model", dtype=dtype)
    (folder / "model.h").write_text(header, encoding="ascii")
    source = '#include "model.h"\nvoid one(const struct model_row *row, REAL *out);\n'
    source += "void one(const struct model_row *row, REAL *out) { model_predict_row(row, out); }\n"
    source += "double day(int y, int m, int d);\n"
    source += "double day(int y, int m, int d) { return model_days(y, m, d, 12.0); }\n"
    (folder / "model.c").write_text(source.replace("REAL", real))
    strict = ["-O1", "-Wall", "-Wextra", "-Werror", "-std=c99", "-fPIC", "-shared"]
    seconds = _compile(["gcc", *strict, "model.c", "-o", "model.so", "-lm"], folder)
    library, form = ctypes.CDLL(str(folder / "model.so")), form_of(model.table_encoding_)
    kinds = {TextField: ctypes.c_char_p, DateField: ctypes.c_double}

    class Row(ctypes.Structure):
        _fields_ = [(field.label, kinds.get(type(field), c_real)) for field in form.fields]

    out, found = (c_real * 3)(), []
    for values in records(form, frame):
        row = [v.encode() if isinstance(v, str) else v for v in values]
        texts = [isinstance(field, TextField) for field in form.fields]
        library.one(
            ctypes.byref(Row(*(v if v is not None or t else np.nan for v, t in zip(row, texts, strict=True)))), out
        )
        found.append(list(out))
    return Run(np.array(found), len(header), seconds)


def records(form, frame):
    """Rows of values: days since 1970 for dates, None where missing."""
    for row in cells(form, frame):
        yield [
            (None if text == NOTHING else text)
            if isinstance(field, TextField)
            else (None if text == "nan" else float(text))
            for field, text in zip(form.fields, row, strict=True)
        ]


def _run_sql(database: str, model: Any, frame: pd.DataFrame) -> Run:
    """The answers, and last the label of a classifier."""
    form = form_of(model.table_encoding_)
    connection: Any
    if database == "sqlite":
        connection = sqlite3.connect(":memory:")
    else:
        import duckdb

        connection = duckdb.connect()
    columns = [f'"{field.name}" {"VARCHAR" if isinstance(field, TextField) else "DOUBLE"}' for field in form.fields]
    connection.execute(f"CREATE TABLE model ({', '.join(columns)})")
    places = ", ".join("?" * len(columns))
    frame = frame.replace({"a b": "  Ulm\t"}, "  Ulm ")  # SQL trims spaces alone
    connection.executemany(f"INSERT INTO model VALUES ({places})", list(records(form, frame)))
    query = to_source(model, language="sql", name="model")
    found = np.array(connection.execute(query).fetchall(), object)
    return Run(found[:, len(columns) :], len(query), 0.0)
