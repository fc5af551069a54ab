"""Exports answer what Python answers: ONNX under onnxruntime, C under gcc."""

import ctypes
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest
import skl2onnx
from formula_reference import evaluate
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import rflaf
from rflaf import Activation, RandomActivationFeatures, RandomFeatureModel, RFLAFClassifier, RFLAFRegressor
from rflaf.cli.app import run
from rflaf.export.formula import formula_of
from rflaf.export.programs import register_onnx_converters, to_c, to_onnx
from rflaf.functions.bases import BSplineBasis, RBFBasis
from rflaf.functions.curves import ColumnCurves, Knots
from rflaf.functions.densities import Directions
from rflaf.functions.losses import Logistic, Poisson
from rflaf.functions.smooth_bases import FixedActivation, PolynomialBasis

RANDOM = {"directions": "random", "random_state": 0}
TOLERANCE = {np.float32: 1.5e-5, np.float64: 1e-8}  # of the spread of an answer over the rows
PLAIN = {
    *("Add", "ArgMax", "Cast", "Clip", "Concat", "Exp", "Floor", "Gather", "Identity", "MatMul", "Max", "Min", "Mul"),
    *("Neg", "Sigmoid", "Softmax", "Sub"),
}
needs_gcc = pytest.mark.skipif(sys.platform != "linux" or not shutil.which("gcc"), reason="needs gcc on Linux")
each_dtype = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def rows(n_rows, seed=0):
    """Four columns: two near zero, one far from it with a small spread, one of two values."""
    rng = np.random.default_rng(seed)
    X = rng.normal(0, 1.2, (n_rows, 4))
    X[:, 2] += 50_000
    X[:, 3] = rng.integers(0, 2, n_rows)
    return X.astype(np.float32).astype(np.float64)


def fit_all():
    X = rows(400)
    y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 / 2 + 0.3 * (X[:, 2] - 50_000) * X[:, 3]
    two, three = y > 1, np.digitize(y, [0, 1])
    counts = np.random.default_rng(0).poisson(np.exp(y / 3))
    return {
        "shared RBF": RFLAFRegressor.paper(15, pool_size=60, random_state=0).fit(X, y),
        "shared": RFLAFRegressor(15, activation="shared", **RANDOM).fit(X, y),
        "per component": RFLAFRegressor(15, **RANDOM).fit(X, y),
        "per component RBF": RFLAFRegressor(15, basis="rbf", **RANDOM).fit(X, y),
        "shared polynomial": RFLAFRegressor(15, basis=PolynomialBasis(7), activation="shared", **RANDOM).fit(X, y),
        "fixed": RFLAFRegressor(15, basis="relu", **RANDOM).fit(X, y),
        "fixed, a callable": RFLAFRegressor(15, basis=FixedActivation(np.arctan), **RANDOM).fit(X, y),
        "two outputs": RFLAFRegressor(15, **RANDOM).fit(X, np.c_[y, y**2]),
        "refined, curves": RFLAFRegressor(15, curves=True, random_state=0).fit(X, np.c_[y, y**2]),
        "refined, straight": RFLAFRegressor(15, curves=False, random_state=0).fit(X, y),
        "Poisson": RFLAFRegressor(15, loss="poisson", **RANDOM).fit(X, counts),
        "regression of odds": RFLAFRegressor(15, loss=Logistic(), **RANDOM).fit(X, two.astype(float)),
        "features": RandomActivationFeatures(15, **RANDOM).fit(X, y),
        "two classes": RFLAFClassifier(15, **RANDOM).fit(X, np.where(two, "yes", "no")),
        "three classes": RFLAFClassifier(6, **RANDOM).fit(X, three * 10),
        "hinge of two": RFLAFClassifier(15, loss="squared_hinge", **RANDOM).fit(X, two),
        "hinge of three": RFLAFClassifier(6, loss="squared_hinge", **RANDOM).fit(X, three.astype(float)),
    }


NAMES = [
    *("shared RBF", "shared", "per component", "per component RBF", "shared polynomial", "fixed"),
    *("fixed, a callable", "two outputs", "refined, curves"),
    *("refined, straight", "Poisson", "regression of odds", "features", "two classes", "three classes"),
    *("hinge of two", "hinge of three"),
]
each_name = pytest.mark.parametrize("name", NAMES)


@pytest.fixture(scope="module")
def fitted(small_pool):
    return fit_all()


@pytest.fixture(scope="module")
def many():
    return rows(10_000, seed=1)


def answers(estimator, X):
    """What the exports are to answer: (n_rows, n_answers), computed in double precision."""
    if isinstance(estimator, RFLAFClassifier):
        if hasattr(estimator, "predict_proba"):
            return estimator.predict_proba(X)
        f = estimator.decision_function(X)
        return np.c_[-f, f] if f.ndim == 1 else f
    answer = estimator.predict(X) if hasattr(estimator, "predict") else estimator.transform(X)
    return answer.reshape(X.shape[0], -1)


def assert_close(found, wanted, tolerance):
    """The largest difference over all rows, in units of the standard deviation of the answer over the rows."""
    assert found.shape == wanted.shape
    worst = np.max(np.abs(found - wanted) / np.std(wanted, axis=0))
    assert worst < tolerance


def assert_same_labels(found, estimator, X):
    """Where the two best classes are farther apart than rounding."""
    scores = np.sort(answers(estimator, X), axis=1)
    clear = scores[:, -1] - scores[:, -2] > 1e-4
    assert clear.mean() > 0.99
    np.testing.assert_array_equal(found[clear], estimator.predict(X)[clear])


def run_onnx(model, inputs):
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, inputs)


def compile_c(folder, header, dtype):
    """A function of rows (n, d) to (n, n_out), the header compiled as the issue of warnings asks."""
    real = "float" if dtype == np.float32 else "double"
    folder.mkdir(exist_ok=True)
    (folder / "model.h").write_text(header)
    source = f"""#include "model.h"
        void all_rows(long n, const {real} *x, {real} *out);
        void all_rows(long n, const {real} *x, {real} *out)
        {{
            if (n > 1)
                model_predict_rows(n, x, out);
            else
                model_predict(x, out);
        }}
    """
    (folder / "model.c").write_text(source)
    strict = ["-O2", "-Wall", "-Wextra", "-Werror", "-std=c99"]
    subprocess.run(["gcc", *strict, "-fPIC", "-shared", "model.c", "-o", "model.so", "-lm"], cwd=folder, check=True)
    library = ctypes.CDLL(str(folder / "model.so"))
    n_out = int(re.search(r"MODEL_N_OUT (\d+)", header)[1])

    def predict(X):
        X = np.ascontiguousarray(X, dtype)
        out = np.empty((X.shape[0], n_out), dtype)
        pointers = (array.ctypes.data_as(ctypes.c_void_p) for array in (X, out))
        library.all_rows(ctypes.c_long(X.shape[0]), *pointers)
        return out

    return predict


def test_the_models_under_test_are_those_named(fitted):
    assert list(fitted) == NAMES
    assert fitted["refined, curves"].curves_ is not None
    assert fitted["refined, straight"].curves_ is None


@each_name
def test_the_formula_in_numpy_answers_as_the_estimator(fitted, many, name):
    X = many[:500]
    assert_close(evaluate(formula_of(fitted[name], np.float64), X), answers(fitted[name], X), 1e-8)


@each_dtype
@each_name
def test_onnx_answers_as_python(fitted, many, name, dtype):
    estimator = fitted[name]
    found = run_onnx(to_onnx(estimator, dtype=dtype), {"X": many.astype(dtype)})
    assert found[-1].dtype == dtype
    assert_close(found[-1], answers(estimator, many), TOLERANCE[dtype])
    if isinstance(estimator, RFLAFClassifier):
        assert_same_labels(found[0], estimator, many)


@pytest.mark.slow
@needs_gcc
@each_dtype
@each_name
def test_c_answers_as_python(fitted, many, name, dtype, tmp_path):
    estimator = fitted[name]
    found = compile_c(tmp_path, to_c(estimator, name="model", dtype=dtype), dtype)(many)
    wanted = answers(estimator, many)
    assert_close(found[:, : wanted.shape[1]], wanted, TOLERANCE[dtype])
    if isinstance(estimator, RFLAFClassifier):
        assert_same_labels(estimator.classes_[found[:, -1].astype(int)], estimator, many)


@pytest.mark.slow
@needs_gcc
@pytest.mark.realdata
@pytest.mark.skipif("RFLAF_DATA_DIR" not in os.environ, reason="RFLAF_DATA_DIR is not set")
def test_both_exports_are_exact_on_skewed_columns_with_steep_curves(tmp_path):
    data = np.loadtxt(Path(os.environ["RFLAF_DATA_DIR"], "protein", "CASP.csv"), delimiter=",", skiprows=1)
    data = np.random.default_rng(0).permutation(data)[:16_000].astype(np.float32).astype(np.float64)
    X, y = np.ascontiguousarray(data[:, 1:]), data[:, 0]
    model = RFLAFRegressor(30, curves=True, random_state=0).fit(X[10_000:], y[10_000:])
    wanted = answers(model, X[:10_000])
    assert_close(run_onnx(to_onnx(model), {"X": X[:10_000].astype(np.float32)})[0], wanted, 1e-5)
    assert_close(compile_c(tmp_path, to_c(model, name="model"), np.float32)(X[:10_000]), wanted, 1e-5)


def test_a_column_far_from_zero_keeps_its_digits_in_single_precision(fitted, many):
    for name in ("per component", "refined, curves"):
        estimator, wanted = fitted[name], answers(fitted[name], many)
        assert_close(answers(estimator, many.astype(np.float32)), wanted, 1e-5)
        assert_close(evaluate(formula_of(estimator, np.float32), many), wanted, 1e-5)


@each_name
def test_only_plain_operators_of_the_stated_opset_are_used(fitted, name):
    model = to_onnx(fitted[name])
    assert {node.op_type for node in model.graph.node} <= PLAIN
    assert [(opset.domain, opset.version) for opset in model.opset_import] == [("", 18)]


def test_an_export_is_the_same_each_time(fitted):
    for name in ("refined, curves", "two classes"):
        assert to_onnx(fitted[name]).SerializeToString() == to_onnx(fitted[name]).SerializeToString()
        assert to_c(fitted[name]) == to_c(fitted[name])


def test_a_bare_model_answers_its_decision(fitted, many):
    estimator = fitted["two classes"]
    (found,) = run_onnx(to_onnx(estimator.model_), {"X": many.astype(np.float32)})
    assert_close(found, estimator.model_.decision(many), 1e-5)
    header = to_c(estimator.model_)
    assert "N_OUT 1\n" in header
    assert "math.h" not in header


# --- pipelines ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["refined, curves", "two classes", "features", "two outputs"])
def test_a_pipeline_with_a_scaler_converts(fitted, many, name):
    X = rows(400)
    scaler = StandardScaler().fit(X)
    pipeline = make_pipeline(scaler, type(fitted[name])(10, **RANDOM))
    y = np.abs(X[:, 0]) if name == "features" else fitted[name].predict(X)
    pipeline.fit(X, y)
    for dtype in (np.float32, np.float64):
        found = run_onnx(to_onnx(pipeline, dtype=dtype), {"X": many.astype(dtype)})[-1]
        if dtype is np.float32:  # the scaler of the graph computes in the precision of its input, that of scikit-learn
            mean, scale = scaler.mean_.astype(np.float32), scaler.scale_.astype(np.float32)  # in all releases but some
            wanted = answers(pipeline[-1], ((many.astype(np.float32) - mean) / scale).astype(np.float64))
        else:
            wanted = answers(pipeline[-1], scaler.transform(many))
        assert_close(found, wanted, 1e-4 if dtype is np.float32 else 1e-8)


def test_features_convert_in_front_of_linear_models(many):
    X = rows(400)
    near = X - [0, 0, 50_000, 0]
    far = many - [0, 0, 50_000, 0]
    y = np.abs(X[:, 0])
    for last, target in ((Ridge(), y), (LogisticRegression(), y > 1)):
        pipeline = make_pipeline(RandomActivationFeatures(10, **RANDOM), last).fit(near, target)
        found = run_onnx(to_onnx(pipeline), {"X": far.astype(np.float32)})
        if last is pipeline[-1] and hasattr(last, "predict_proba"):
            assert_close(found[1], pipeline.predict_proba(far), 1e-5)
        else:
            assert_close(found[0][:, 0], pipeline.predict(far), 1e-5)


@pytest.fixture(scope="module")
def mixed():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": rng.normal(40, 12, 500).round(1),
            "town": rng.choice(["Ulm", "Bonn", "Köln"], 500),
            "income": rng.lognormal(10, 0.5, 500).round(2),
        }
    )
    frame.loc[::7, "income"] = np.nan
    prepare = ColumnTransformer(
        [
            ("numbers", make_pipeline(SimpleImputer(), StandardScaler()), ["income", "age"]),
            ("towns", OneHotEncoder(handle_unknown="ignore", sparse_output=False), ["town"]),
        ]
    )
    label = np.where((frame.age > 40) ^ (frame.town == "Ulm"), "stays", "leaves")
    return frame, make_pipeline(prepare, RFLAFClassifier(10, **RANDOM)).fit(frame, label)


def test_a_pipeline_of_mixed_columns_converts_with_one_input_a_column(mixed):
    frame, pipeline = mixed
    model = to_onnx(pipeline, sample=frame.head())
    assert [value.name for value in model.graph.input] == list(frame.columns)
    kinds = {"age": np.float32, "income": np.float32, "town": object}
    label, probabilities = run_onnx(model, {name: frame[[name]].to_numpy(kind) for name, kind in kinds.items()})
    np.testing.assert_array_equal(label, pipeline.predict(frame))
    assert_close(probabilities, pipeline.predict_proba(frame), 1e-5)


def test_skl2onnx_itself_converts_once_the_estimators_are_registered(fitted, many):
    register_onnx_converters()
    X = many[:3].astype(np.float32)
    model = skl2onnx.to_onnx(make_pipeline(fitted["two classes"]), X)
    _, by_class = run_onnx(model, {"X": X})
    wanted = fitted["two classes"].predict_proba(many[:3])
    np.testing.assert_allclose([[row["no"], row["yes"]] for row in by_class], wanted, atol=1e-5)


# --- models made by hand -----------------------------------------------------------------------------------


@st.composite
def models(draw):
    """A model of arbitrary arrays, with or without curves; columns may have no effect."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    d, S, n_outputs = draw(st.integers(1, 4)), draw(st.integers(1, 9)), draw(st.integers(1, 3))
    n_basis = draw(st.integers(4, 9))
    basis = draw(
        st.sampled_from(
            [BSplineBasis(n_basis, degree=degree, interval=(-2.0, 3.0)) for degree in (1, 2, 3)] + [RBFBasis(n_basis)]
        )
    )
    a = rng.standard_normal((draw(st.sampled_from([1, S])), n_basis))
    W = rng.standard_normal((d, S)) * rng.integers(0, 2, (d, 1))
    directions = Directions(W, rng.standard_normal(S), rng.uniform(0.5, 2, S), S)
    curves = None
    if draw(st.booleans()):
        columns = np.flatnonzero(rng.integers(0, 2, d))
        nodes = [np.sort(rng.standard_normal(rng.integers(3, 6))) for _ in columns]
        start = np.cumsum([0, *(part.size for part in nodes)])
        knots = Knots(columns, start, np.concatenate(nodes) if nodes else np.zeros(0))
        curves = ColumnCurves(knots, rng.standard_normal((int(start[-1]), S)))
    v, intercept = rng.standard_normal((S, n_outputs)), rng.standard_normal(n_outputs)
    return RandomFeatureModel(directions, Activation(basis, a), v, intercept, curves), 2 * rng.standard_normal((30, d))


@given(models())
def test_the_formula_is_the_model(made):
    model, X = made
    found = evaluate(formula_of(model, np.float64), X)
    np.testing.assert_allclose(found, model.decision(X), rtol=1e-9, atol=1e-9 * np.abs(model.v).sum())


@settings(max_examples=15)
@given(models())
def test_onnx_is_the_formula(made):
    model, X = made
    (found,) = run_onnx(to_onnx(model, dtype=np.float64), {"X": X})
    np.testing.assert_allclose(found, model.decision(X), rtol=1e-9, atol=1e-9 * np.abs(model.v).sum())


@needs_gcc
@settings(max_examples=10)
@given(models())
def test_c_is_the_formula(tmp_path_factory, made):
    model, X = made
    found = compile_c(tmp_path_factory.mktemp("c"), to_c(model, name="model", dtype=np.float64), np.float64)(X)
    np.testing.assert_allclose(found, model.decision(X), rtol=1e-9, atol=1e-9 * np.abs(model.v).sum())


# --- the header --------------------------------------------------------------------------------------------


@needs_gcc
@pytest.mark.parametrize(("name", "calls"), [("refined, curves", set()), ("three classes", {"expf"})])
def test_a_header_calls_nothing_but_what_it_states(fitted, name, calls, tmp_path):
    header = to_c(fitted[name], tmp_path / "own.h", name="own")
    (tmp_path / "own.c").write_text('#include "own.h"\nvoid go(const float *x, float *out) { own_predict(x, out); }\n')
    subprocess.run(["gcc", "-O2", "-std=c99", "-c", "own.c"], cwd=tmp_path, check=True)
    undefined = subprocess.run(["nm", "-u", "own.o"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    assert set(undefined.split()) - {"U", "_GLOBAL_OFFSET_TABLE_"} == calls
    assert ("Calls exp of math.h" in header) == bool(calls)


@pytest.mark.slow
@needs_gcc
def test_rows_that_are_not_finite_stay_inside_the_arrays(fitted, tmp_path):
    for number, name in enumerate(("refined, curves", "per component RBF", "three classes")):
        to_c(fitted[name], tmp_path / f"m{number}.h", name=f"m{number}")
    calls = "".join(f"m{number}_predict(x, out);" for number in range(3))
    (tmp_path / "main.c").write_text(
        f"""#include "m0.h"
        #include "m1.h"
        #include "m2.h"
        int main(void)
        {{
            const float odd[] = {{0.0f / 0.0f, 1.0f / 0.0f, -1.0f / 0.0f, 3e38f, -3e38f, 1e-45f, 0.0f}};
            float x[4], out[8];
            for (int i = 0; i < 7; i++) for (int j = 0; j < 7; j++) {{
                x[0] = x[2] = odd[i]; x[1] = x[3] = odd[j]; {calls}
            }}
            return 0;
        }}"""
    )
    checks = ["-fsanitize=address,undefined", "-fno-sanitize=float-divide-by-zero", "-fno-sanitize-recover=all"]
    build = subprocess.run(
        ["gcc", "-O1", "-std=c99", *checks, "main.c", "-o", "main", "-lm"],
        cwd=tmp_path,
        check=False,
        capture_output=True,
    )
    if build.returncode:
        pytest.skip("gcc has no sanitizers here")
    subprocess.run([tmp_path / "main"], check=True)


def test_names_of_columns_and_classes_stand_in_the_comment_and_cannot_leave_it(fitted):
    X = pd.DataFrame(rows(200), columns=["age", "in/out */ int main", "/* ??/", "näme\n#define"])
    model = RFLAFClassifier(5, **RANDOM).fit(X, np.where(X["age"] > 0, "*/ evil", "good"))
    header = to_c(model)
    comment, code = header.split("*/", 1)
    assert "0: age" in comment
    assert "1: in\\x2fout \\x2a\\x2f int main" in comment
    assert comment.count("/*") == 1
    assert "main" not in code
    assert header.isascii()
    assert "probability of good" in comment


@pytest.mark.parametrize("name", ["", "2fast", "a-b", "x" * 41, "größe", "a;b", None])
def test_a_name_that_is_no_identifier_is_refused(fitted, name):
    with pytest.raises(rflaf.InvalidParameterError, match="name must be a C identifier"):
        to_c(fitted["shared"], name=name)


# --- refusals and files ------------------------------------------------------------------------------------


@pytest.mark.parametrize("export", [to_onnx, to_c])
def test_what_cannot_be_exported_is_refused(fitted, export):
    with pytest.raises(NotFittedError):
        export(RFLAFRegressor())
    with pytest.raises(rflaf.InvalidParameterError, match="dtype must be float32 or float64; got 'int8'"):
        export(fitted["shared"], dtype="int8")
    with pytest.raises(rflaf.InvalidParameterError, match="dtype must be float32 or float64"):
        export(fitted["shared"], dtype="no such")


def test_c_takes_only_our_estimators():
    with pytest.raises(rflaf.InvalidParameterError, match="have a formula; got 'Ridge'"):
        to_c(Ridge())


def test_a_link_of_ones_own_is_refused_with_the_way_out(fitted):
    class Doubled(Poisson):
        def mean(self, f):
            return 2 * super().mean(f)

    X = rows(200)
    model = RFLAFRegressor(5, loss=Doubled(), **RANDOM).fit(X, np.ones(200))
    with pytest.raises(
        rflaf.InvalidParameterError, match=r"only the links of this package's losses .* Pass the estimator's model_"
    ):
        to_c(model)
    assert to_c(model.model_)


def test_a_sample_must_have_named_columns(fitted):
    with pytest.raises(rflaf.InvalidParameterError, match="sample must be rows of a data frame"):
        to_onnx(fitted["shared"], sample=np.zeros((1, 4)))


def test_without_the_extra_it_is_named(fitted, monkeypatch):
    monkeypatch.setitem(sys.modules, "skl2onnx", None)
    with pytest.raises(ImportError, match=r"pip install 'rflaf\[export\]'"):
        to_onnx(fitted["shared"])


def test_files_hold_what_is_returned(fitted, tmp_path):
    model = to_onnx(fitted["shared"], tmp_path / "model.onnx")
    assert (tmp_path / "model.onnx").read_bytes() == model.SerializeToString(deterministic=True)
    header = to_c(fitted["shared"], tmp_path / "model.h")
    assert (tmp_path / "model.h").read_text() == header
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.h", "model.onnx"]


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(fitted, tmp_path, monkeypatch):
    path = tmp_path / "model.h"
    path.write_text("before")

    def fail(*_):
        raise OSError("no space left")

    monkeypatch.setattr("pathlib.Path.write_bytes", fail)
    for export in (to_c, to_onnx):
        with pytest.raises(OSError, match="no space left"):
            export(fitted["shared"], path)
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_is_not_there_is_refused(fitted, tmp_path):
    with pytest.raises(rflaf.InvalidParameterError, match="a file in a folder that exists"):
        to_c(fitted["shared"], tmp_path / "none" / "model.h")


# --- table models ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def table():
    """Numbers, truth values, two, three and many levels, dates with and without hours; something missing everywhere."""
    rng = np.random.default_rng(0)
    n_rows = 600
    frame = pd.DataFrame(
        {
            "age": rng.normal(40, 12, n_rows).round(1),
            "member": rng.integers(0, 2, n_rows).astype(bool),
            "side": rng.choice(["left", "right"], n_rows),
            "town": rng.choice(["Ulm", "Bonn", "Köln"], n_rows),
            "street": [f"s{number}" for number in (65 * rng.random(n_rows) ** 2).astype(int)],
            "born": pd.Timestamp("1970-01-01") + pd.to_timedelta(rng.integers(-40_000, 60_000, n_rows), unit="D"),
            "seen": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 10**5, n_rows), unit="h"),
        }
    )
    y = frame["age"] / 10 + 2 * (frame["town"] == "Ulm") + (frame["side"] == "left") + rng.normal(0, 0.1, n_rows)
    for start, name in enumerate(["age", "town", "born"]):
        frame.loc[start::9, name] = None
    return frame.assign(y=y)


@pytest.fixture(scope="module")
def table_model(table):
    return RFLAFRegressor(8, **RANDOM).fit(table.drop(columns="street"), "y")


def table_inputs(frame, dtype):
    days = {name: (frame[[name]] - pd.Timestamp("1970-01-01")) / pd.Timedelta(days=1) for name in ("born", "seen")}
    texts = {name: frame[[name]].fillna("").to_numpy(object) for name in ("side", "town")}
    numbers = {name: frame[[name]].to_numpy(dtype) for name in ("age", "member")}
    return numbers | texts | {name: column.to_numpy(np.float64) for name, column in days.items()}


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-5), (np.float64, 1e-9)])
def test_a_table_model_is_exported_with_its_encoding(table, table_model, dtype, tolerance):
    model = to_onnx(table_model, dtype=dtype)
    names = [value.name for value in model.graph.input]
    assert names == list(table_model.table_encoding_.column_names)
    frame = table.assign(town=table["town"].where(table.index % 11 > 0, "Oslo"))  # never seen before
    frame.loc[3::17, "seen"] += pd.Timedelta(days=5_000)  # after the last date of the fit
    (found,) = run_onnx(model, {name: column for name, column in table_inputs(frame, dtype).items() if name in names})
    assert_close(found[:, 0], table_model.predict(frame), tolerance)


def test_dates_after_a_fit_within_a_year_are_told_in_its_year():
    days = np.arange(19_600, 19_800)  # across New Year
    frame = pd.DataFrame({"paid": days.astype("datetime64[D]").astype("datetime64[s]"), "y": np.sin(days / 30)})
    model = RFLAFRegressor(8, **RANDOM).fit(frame, "y")
    new = np.arange(19_000, 21_000) + 0.25
    (found,) = run_onnx(to_onnx(model, dtype=np.float64), {"paid": new[:, None]})
    assert model.table_encoding_.columns[0].by_season
    rows = pd.DataFrame({"paid": pd.Timestamp("1970-01-01") + pd.to_timedelta(new, unit="D")})
    assert_close(found[:, 0], model.predict(rows), 1e-9)


def test_every_encoded_column_is_that_of_the_encoding(table, table_model):
    model = to_onnx(table_model, dtype=np.float64)
    encoded = next(node.output[0] for node in model.graph.node if node.op_type == "Concat")
    model.graph.output.append(onnx.helper.make_tensor_value_info(encoded, onnx.TensorProto.DOUBLE, None))
    found = run_onnx(model, table_inputs(table, np.float64))[-1]
    np.testing.assert_allclose(found, table_model.table_encoding_.transform(table), rtol=0, atol=1e-9)


@pytest.mark.slow
def test_rare_levels_share_a_column_and_missing_ones_have_their_own(table, monkeypatch):
    monkeypatch.setattr("rflaf.rows.tables.encoding._MOST_LEVELS", 50)
    frame = table[["street", "age"]].assign(label=np.where(table["y"] > 4, "old", "young"))
    frame.loc[::50, "street"] = None
    fitted = RFLAFClassifier(5, **RANDOM).fit(frame, "label")
    assert fitted.table_encoding_.columns[0].others
    assert fitted.table_encoding_.columns[0].missing
    frame.loc[1::50, "street"] = "nowhere"
    inputs = {"street": frame[["street"]].fillna("NA").to_numpy(object), "age": frame[["age"]].to_numpy(np.float32)}
    label, probabilities = run_onnx(to_onnx(fitted), inputs)
    assert_close(probabilities, fitted.predict_proba(frame), 1e-5)
    assert (label == fitted.predict(frame)).mean() > 0.99


def test_the_header_of_a_table_model_says_how_to_encode_a_row(table_model):
    header = to_c(table_model, name="tenure")
    assert "0: age, " in header
    assert "where missing" in header
    assert "side=right, 0 or 1, 0.5 where unknown" in header
    assert f"TENURE_N_FEATURES {len(table_model.table_encoding_.feature_names)}\n" in header


def test_the_command_line_writes_what_python_does(table_model, tmp_path):
    path = str(tmp_path / "model.rflaf")
    rflaf.save(table_model, path)
    for language, name in (("onnx", "model.onnx"), ("c", "model.h")):
        assert run(["export", path, "--to", language, "--out", str(tmp_path / name), "--json"]) == 0
    assert (tmp_path / "model.onnx").read_bytes() == to_onnx(table_model).SerializeToString(deterministic=True)
    assert (tmp_path / "model.h").read_text() == to_c(table_model)


def test_a_name_that_is_none_ends_the_command_with_one_line_and_no_file(table_model, tmp_path, capsys):
    path = str(tmp_path / "model.rflaf")
    rflaf.save(table_model, path)
    assert run(["export", path, "--to", "c", "--out", str(tmp_path / "model.h"), "--name", "2x"]) == 2
    assert "name must be a C identifier" in capsys.readouterr().err
    assert [entry.name for entry in tmp_path.iterdir()] == ["model.rflaf"]


def test_inputs_of_onnx_have_the_names_of_the_columns():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((200, 4)), columns=["a b", "a_b", "2nd/x", "concat"])
    model = RFLAFRegressor(4, **RANDOM).fit(frame, frame["a b"] + frame["a_b"] ** 2 - frame["concat"])
    model = RFLAFRegressor(4, **RANDOM).fit(frame.assign(y=model.predict(frame)), "y")
    exported = to_onnx(model, dtype="float64")
    assert [put.name for put in exported.graph.input] == list(frame)
    answers = run_onnx(exported, {name: frame[[name]].to_numpy() for name in frame})[0]
    np.testing.assert_allclose(answers.ravel(), model.predict(frame), atol=1e-8)
