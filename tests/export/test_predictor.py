"""Saved models predict a few rows without scikit-learn and without a compiler, and as the estimators do."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rflaf
from rflaf.functions.bases import BSplineBasis, RBFBasis
from rflaf.functions.curves import ColumnCurves, Knots
from rflaf.functions.densities import Directions
from rflaf.functions.smooth_bases import FixedActivation, PolynomialBasis
from rflaf.model import in_numpy
from rflaf.model.random_feature_model import Activation, RandomFeatureModel

BASES = (BSplineBasis(12), BSplineBasis(8, degree=1), RBFBasis(10), PolynomialBasis(5), FixedActivation("tanh"))


def some_model(rng, basis, n_features, n_components, n_outputs, shared, curved) -> RandomFeatureModel:
    directions = Directions(
        rng.standard_normal((n_features, n_components)),
        rng.standard_normal(n_components),
        rng.uniform(0.5, 2, n_components),
        n_components,
    )
    a = rng.standard_normal((1 if shared else n_components, basis.n_basis))
    curves = None
    if curved:
        columns = np.sort(rng.choice(n_features, max(1, n_features // 2), replace=False))
        nodes = [np.sort(rng.standard_normal(rng.integers(2, 9))) for _ in columns]
        start = np.cumsum([0, *(part.size for part in nodes)])
        curves = ColumnCurves(
            Knots(columns, start, np.concatenate(nodes)), rng.standard_normal((start[-1], n_components))
        )
    v, b = rng.standard_normal((n_components, n_outputs)), rng.standard_normal(n_outputs)
    return RandomFeatureModel(directions, Activation(basis, a), v, b, curves)


def stated_bound(model: RandomFeatureModel, X) -> np.ndarray:
    """The bound of `rflaf.model.in_numpy`, (n_rows, n_outputs), in cells of the activation."""
    feature_map = model.feature_map(np.float64)
    pieces = model.activation.basis.pieces(model.activation.coefficients)
    c = np.abs(feature_map.table[: model.n_components])
    value = (c * 0.5 ** np.arange(4)).sum(axis=2).max(axis=1)
    slope = (c[..., 1:] * np.arange(1, 4) * 0.5 ** np.arange(3)).sum(axis=2).max(axis=1)
    terms = np.abs(X) @ np.abs(model.directions.W) + np.abs(model.directions.offset) + abs(pieces.low)
    if model.curves is not None:
        knots = model.curves.knots
        for curve in range(knots.n_curves):
            own = model.curves.values[knots.start[curve] : knots.start[curve + 1]]
            q, w = knots.of(curve), np.abs(model.directions.W[knots.columns[curve]])
            terms = terms + np.abs(own).max(axis=0) + 4 * np.abs(q).max() * w
            x = X[:, knots.columns[curve]]
            steps = np.abs(np.diff(own, axis=0)) / np.diff(q)[:, None]  # how far the position in a cell is magnified
            terms = terms + steps.max(axis=0) * (np.abs(x)[:, None] + np.abs(q).max())
    size = np.abs(model.directions.importance[:, None] * model.v)
    each = (value + slope * (terms / pieces.step + 1)) @ size + np.abs(model.intercept)
    return each * (model.n_features + model.n_components + 16)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    basis=st.sampled_from(BASES),
    n_features=st.integers(1, 6),
    n_components=st.integers(1, 20),
    n_outputs=st.integers(1, 3),
    shared=st.booleans(),
    curved=st.booleans(),
    dtype=st.sampled_from([np.float64, np.float32]),
)
def test_numpy_and_the_compiled_loops_agree_within_the_stated_bound(
    seed, basis, n_features, n_components, n_outputs, shared, curved, dtype
):
    rng = np.random.default_rng(seed)
    model = some_model(rng, basis, n_features, n_components, n_outputs, shared, curved)
    X = (2 * rng.standard_normal((11, n_features))).astype(dtype)
    compiled = model.decision(X)
    plain = in_numpy.decision(*model._in_numpy, model.intercept, X)
    assert plain.dtype == compiled.dtype == dtype
    assert np.all(np.abs(plain - compiled) <= np.finfo(dtype).eps * stated_bound(model, X.astype(float)))


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """Models of every kind, saved, with rows and the answers of the estimators."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 4))
    f = np.sin(2 * X[:, 0]) + X[:, 1]
    folder = tmp_path_factory.mktemp("saved")
    two, three = np.where(f > 0, "yes", "no"), np.digitize(f, [-0.5, 0.5])
    kinds = {
        "refined": rflaf.RFLAFRegressor(10, random_state=0).fit(X, f),
        "outputs": rflaf.RFLAFRegressor.convex(10, random_state=0).fit(X, np.column_stack([f, -f])),
        "counts": rflaf.RFLAFRegressor.convex(10, loss="poisson", random_state=0).fit(X, np.round(np.exp(f))),
        "two": rflaf.RFLAFClassifier.convex(10, random_state=0).fit(X, two),
        "three": rflaf.RFLAFClassifier.convex(10, random_state=0).fit(X, three),
        "margin": rflaf.RFLAFClassifier.convex(10, loss="squared_hinge", random_state=0).fit(X, two),
    }
    for name, estimator in kinds.items():
        rflaf.save(estimator, folder / name)
    return folder, kinds, X[:20]


@pytest.mark.parametrize("kind", ["refined", "outputs", "counts", "two", "three", "margin"])
def test_a_predictor_answers_as_the_estimator_in_its_file(fitted, kind):
    folder, kinds, X = fitted
    predictor, estimator = rflaf.load_predictor(folder / kind), kinds[kind]
    if predictor.classes is None:
        assert np.allclose(predictor.predict(X), estimator.predict(X), rtol=1e-12, atol=1e-12)
        assert predictor.predict(X).shape == estimator.predict(X).shape
    else:
        assert np.array_equal(predictor.predict(X), estimator.predict(X))
    assert predictor.gives_probabilities == hasattr(estimator, "predict_proba")
    if predictor.gives_probabilities:
        assert np.allclose(predictor.predict_proba(X), estimator.predict_proba(X), rtol=1e-12, atol=1e-12)
    else:
        with pytest.raises(rflaf.InvalidParameterError, match="only classifiers under the log loss"):
            predictor.predict_proba(X)


def test_a_predictor_refuses_rows_that_are_none(fitted):
    predictor = rflaf.load_predictor(fitted[0] / "refined")
    with pytest.raises(rflaf.InvalidParameterError, match="matrix of 4 columns"):
        predictor.predict(np.zeros(4))
    with pytest.raises(rflaf.InvalidParameterError, match="finite numbers; got 'nan at"):
        predictor.predict([[0, 0, np.nan, 0]])


HEAVY = ("numba", "llvmlite", "sklearn", "scipy.linalg", "scipy.sparse", "scipy.special")
SCRIPT = f"""
import sys, numpy as np
known = set(sys.modules)  # older releases of NumPy import more of themselves
import rflaf
answers = rflaf.load_predictor(sys.argv[1]).predict(np.load(sys.argv[2]))
heavy = {(*HEAVY, "pyarrow", "numpy.ma", "numpy.polynomial")}
assert not set(heavy) & (set(sys.modules) - known), "too much is imported"
np.save(sys.argv[3], answers)
from rflaf.model import in_numpy
in_numpy._done = in_numpy.WORTH
again = rflaf.load_predictor(sys.argv[1]).predict(np.load(sys.argv[2]))
assert "numba" in sys.modules, "the compiled loops are worth it by then"
assert np.allclose(again, answers, rtol=1e-12, atol=1e-12)
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["refined", "three"])
def test_a_new_process_predicts_without_a_compiler_until_it_is_worth_it(fitted, kind, tmp_path):
    folder, kinds, X = fitted
    np.save(tmp_path / "X.npy", X)
    arguments = [folder / kind, tmp_path / "X.npy", tmp_path / "answers.npy"]
    run = subprocess.run([sys.executable, "-c", SCRIPT, *map(str, arguments)], check=False, capture_output=True)
    assert run.returncode == 0, run.stderr.decode()
    assert np.allclose(np.load(tmp_path / "answers.npy"), kinds[kind].predict(X), rtol=1e-12, atol=1e-12)


@pytest.mark.slow
def test_the_command_line_predicts_without_a_compiler(tmp_path):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("typer")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.normal(40, 10, 200), "town": rng.choice(["Bonn", "Ulm", "Köln"], 200)})
    frame["rent"] = frame["age"] + 5 * (frame["town"] == "Ulm")
    estimator = rflaf.RFLAFRegressor.convex(8, random_state=0).fit(frame, "rent")
    rflaf.save(estimator, tmp_path / "rent.rflaf")
    frame[:10].to_csv(tmp_path / "ten.csv", index=False)
    code = (
        "import sys; from rflaf.cli.app import run; code = run(sys.argv[1:]);"
        f"sys.exit(code or str(set({(*HEAVY, 'rich', 'pydantic')}) & set(sys.modules) or ''))"
    )
    command = [sys.executable, "-c", code, "predict", tmp_path / "rent.rflaf", tmp_path / "ten.csv"]
    answer = subprocess.run([str(part) for part in command], check=False, capture_output=True, text=True)
    assert answer.stderr.strip() == ""
    found = np.array(answer.stdout.split()[1:], float)
    assert np.allclose(found, estimator.predict(frame.drop(columns="rent")[:10]), rtol=1e-12)
    with subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as deaf:
        deaf.stdout.close()  # as head does once it has its lines
        assert (deaf.stderr.read(), deaf.wait()) == (b"", 1)
