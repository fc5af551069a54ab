"""Programs in other languages answer what Python answers, on 10,000 rows; each runs if its tools are there."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess

import numpy as np
import pytest

import rflaf
from rflaf import RFLAFClassifier, RFLAFRegressor
from rflaf.export.programs import LANGUAGES, to_source
from rflaf.functions.losses import Squared

pytestmark = pytest.mark.slow
RANDOM = {"directions": "random", "random_state": 0}
TOLERANCE = 1e-8  # of the spread of an answer over the rows
MAINS = {
    "js": """const model = require("./model.js");
const lines = require("fs").readFileSync(0, "utf8").trim().split("\\n");
console.log(lines.map(line => Array.from(model.predict(line.split(" ").map(Number))).join(" ")).join("\\n"));
""",
    "java": """import java.io.*;
public final class Main {
    public static void main(String[] none) throws IOException {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        StringBuilder out = new StringBuilder();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.trim().split(" ");
            double[] x = new double[words.length];
            for (int i = 0; i < x.length; i++) x[i] = Double.parseDouble(words[i]);
            for (double answer : model.predict(x)) out.append(answer).append(' ');
            out.append('\\n');
        }
        System.out.print(out);
    }
}
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

func main() {
	in := bufio.NewScanner(os.Stdin)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for in.Scan() {
		var x []float64
		for _, word := range strings.Fields(in.Text()) {
			value, _ := strconv.ParseFloat(word, 64)
			x = append(x, value)
		}
		for _, answer := range model.Predict(x) {
			fmt.Fprint(out, strconv.FormatFloat(answer, 'g', -1, 64), " ")
		}
		fmt.Fprintln(out)
	}
}
""",
    "rust": """include!("model.rs");
use std::io::BufRead;
fn main() {
    for line in std::io::stdin().lock().lines() {
        let x: Vec<f64> = line.unwrap().split_whitespace().map(|word| word.parse().unwrap()).collect();
        let answers: Vec<String> = model::predict(&x).iter().map(|answer| answer.to_string()).collect();
        println!("{}", answers.join(" "));
    }
}
""",
}
TOOLS = {"js": "node", "java": "javac", "go": "go", "rust": "rustc"}


def rows(n_rows, seed=0):
    """Three columns, one of them far from zero."""
    X = np.random.default_rng(seed).normal(0, 1.2, (n_rows, 3))
    X[:, 2] += 1000
    return X


@pytest.fixture(scope="module")
def fitted():
    X = rows(400)
    y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 / 2 + 0.3 * (X[:, 2] - 1000)
    counts = np.random.default_rng(0).poisson(np.exp(y / 3))
    return {
        "curves": RFLAFRegressor(12, curves=True, loss=Squared(), random_state=0).fit(X, np.c_[y, -y]),
        "shared": RFLAFRegressor(12, activation="shared", loss=Squared(), **RANDOM).fit(X, y),
        "counts": RFLAFRegressor(12, loss="poisson", **RANDOM).fit(X, counts),
        "two": RFLAFClassifier(12, **RANDOM).fit(X, np.where(y > 1, "yes", "no")),
        "three": RFLAFClassifier(6, **RANDOM).fit(X, np.digitize(y, [0, 1])),
        "margin": RFLAFClassifier(12, loss="squared_hinge", **RANDOM).fit(X, y > 1),
    }


def answers(estimator, X):
    if not isinstance(estimator, RFLAFClassifier):
        return estimator.predict(X).reshape(len(X), -1)
    if hasattr(estimator, "predict_proba"):
        return estimator.predict_proba(X)
    f = estimator.decision_function(X)
    return np.c_[-f, f]


def run_program(language, folder, text):
    """Return a function of rows that runs the compiled program; the file of the model is called model."""
    name = {"js": "model.js", "java": "model.java", "go": "model/model.go", "rust": "model.rs"}[language]
    main = {"js": "main.js", "java": "Main.java", "go": "main.go", "rust": "main.rs"}[language]
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(text)
    (folder / main).write_text(MAINS[language].replace("\\\\", "\\"))
    (folder / "go.mod").write_text("module example\n\ngo 1.18\n")
    build = {
        "js": None,
        "java": ["javac", "Main.java"],
        "go": ["go", "build", "-o", "main", "."],
        "rust": ["rustc", "-O", "main.rs"],
    }[language]
    if build:
        done = subprocess.run(build, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    command = {"js": ["node", "main.js"], "java": ["java", "Main"]}.get(language, ["./main"])

    def run(X):
        lines = "\n".join(" ".join(repr(float(value)) for value in row) for row in X)
        done = subprocess.run(command, cwd=folder, input=lines, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return np.array([line.split() for line in done.stdout.strip().splitlines()], float)

    return run


def assert_right(found, estimator, X):
    wanted = answers(estimator, X)
    n = wanted.shape[1]
    assert np.max(np.abs(found[:, :n] - wanted) / wanted.std(axis=0)) < TOLERANCE
    if isinstance(estimator, RFLAFClassifier):
        assert np.array_equal(estimator.classes_[found[:, n].astype(int)], estimator.predict(X))


@pytest.mark.parametrize("name", ["curves", "shared", "counts", "two", "three", "margin"])
@pytest.mark.parametrize("language", TOOLS)
def test_programs_answer_as_python_does(fitted, language, name, tmp_path):
    if not shutil.which(TOOLS[language]):
        pytest.skip(f"needs {TOOLS[language]}")
    run = run_program(language, tmp_path, to_source(fitted[name], language=language, name="model"))
    X = rows(10_000, seed=1)
    assert_right(run(X), fitted[name], X)
    far = np.array([[1e300, -1e300, 0], [-1e9, 1e9, 1e9]])
    assert np.isfinite(run(far)).all()


def sqlite(statement, X):
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE model (number INTEGER, x0 REAL, x1 REAL, x2 REAL)")
    rows = [(i, *map(float, row)) for i, row in enumerate(X)]
    connection.executemany("INSERT INTO model VALUES (?, ?, ?, ?)", rows)
    return np.array(connection.execute(statement).fetchall(), object)


def duckdb(statement, X):
    module = pytest.importorskip("duckdb")
    connection = module.connect()
    connection.execute("CREATE TABLE model (x0 DOUBLE, x1 DOUBLE, x2 DOUBLE)")
    connection.executemany("INSERT INTO model VALUES (?, ?, ?)", X.tolist())
    return np.array(connection.execute(statement).fetchall(), object)


@pytest.mark.parametrize("name", ["curves", "shared", "counts", "two", "three", "margin"])
@pytest.mark.parametrize("database", [sqlite, duckdb])
def test_sql_answers_as_python_does(fitted, database, name):
    X = rows(10_000 if database is sqlite and name == "curves" else 500, seed=1)
    found, estimator = database(to_source(fitted[name], language="sql", name="model"), X), fitted[name]
    assert np.array_equal(found[:, :3].astype(float), X)
    wanted = answers(estimator, X)
    numbers = found[:, 3 : 3 + wanted.shape[1]].astype(float)
    assert np.max(np.abs(numbers - wanted) / wanted.std(axis=0)) < TOLERANCE
    if isinstance(estimator, RFLAFClassifier):
        assert found[:, -1].tolist() == [str(label) for label in estimator.predict(X)]


def test_a_language_that_is_none_is_refused(fitted):
    with pytest.raises(rflaf.InvalidParameterError, match="language must be one of c, js, java, go, rust, sql"):
        to_source(fitted["two"], language="cobol")
    with pytest.raises(rflaf.InvalidParameterError, match="name must be a C identifier"):
        to_source(fitted["two"], language="js", name="not a name")


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_source_is_written_whole(fitted, language, tmp_path):
    text = to_source(fitted["two"], tmp_path / "model", language=language)
    assert (tmp_path / "model").read_text() == text
