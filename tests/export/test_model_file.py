"""Model files: what comes back is what was saved, bit for bit, and what is no model is refused; also pickle, joblib."""

from __future__ import annotations

import contextlib
import copy
import json
import pickle
import sys
import tracemalloc
from dataclasses import replace
from pathlib import Path

import fuzz_model_files
import joblib
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from settings import CONVEX, PAPER
from sklearn.base import clone

import rflaf
from rflaf import (
    GreedySelection,
    LeverageSampling,
    RandomActivationFeatures,
    RFLAFClassifier,
    RFLAFRegressor,
    UnreadableModelFile,
)
from rflaf.errors import InvalidParameterError, MissingExtraError
from rflaf.export import model_file as persistence
from rflaf.export.model_file import describe_file, load, load_predictor, save
from rflaf.export.model_file.writing import _halved
from rflaf.functions.bases import BSplineBasis, RBFBasis
from rflaf.functions.densities import StudentT
from rflaf.functions.losses import Huber, Pinball, Squared
from rflaf.functions.smooth_bases import FixedActivation, PolynomialBasis
from rflaf.rows.files import outputs
from rflaf.rows.files.chunks import read_table

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture(scope="module")
def rows():
    """X (260, 3) with a column of few values, y (260,)."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.standard_normal((260, 2)), rng.integers(0, 5, 260)])
    return X, np.abs(X[:, 0]) + X[:, 1] * (X[:, 2] > 2)


LEVERAGE = {"directions": "random", "activation": "shared", "sampling": LeverageSampling(20)}
REGRESSORS = {
    "refined": {"curves": True},
    "refined, straight": {"curves": False},
    "refined, shared": {"activation": "shared", "curves": False, "loss": "huber"},
    "shared": {**PAPER, "basis": "rbf"},
    "per component, RBF": {**CONVEX, "basis": "rbf"},
    "paper": LEVERAGE,
    "greedy": {**CONVEX, "sampling": GreedySelection(20)},
    "quantile": {**CONVEX, "loss": "quantile", "quantile": 0.8},
    "poisson": {**CONVEX, "loss": "poisson"},
    "parts": {
        **CONVEX,
        "basis": RBFBasis(6, (-2.0, 2.0), 0.5),
        "density": StudentT(3.0),
        "bandwidth": 1.0,
        "loss": Huber(0.5),
    },
    "polynomial, unscaled": {**CONVEX, "basis": PolynomialBasis(5), "scale": False},
    "fixed": {**PAPER, "basis": "cos"},
    "fixed, refined": {"basis": FixedActivation("relu", (-8.0, 8.0)), "curves": False},
    "no intercept": {**CONVEX, "fit_intercept": False, "density": "sobol", "basis": BSplineBasis(7, 2)},
}


@pytest.fixture(scope="module")
def fitted(rows):
    """A fitted regressor of every rung, basis and loss."""
    X, y = rows
    return {
        name: RFLAFRegressor(5, random_state=0, **arguments).fit(X, np.abs(y)) for name, arguments in REGRESSORS.items()
    }


def same(ours, theirs):
    """Whether two values are equal, however deep."""
    if isinstance(ours, np.ndarray):
        return np.array_equal(ours, theirs, equal_nan=ours.dtype.kind == "f") and ours.dtype == theirs.dtype
    if hasattr(ours, "__dataclass_fields__"):
        return type(ours) is type(theirs) and all(
            same(getattr(ours, name), getattr(theirs, name))
            for name in ours.__dataclass_fields__
            if not name.startswith("_") and name not in ("outputs", "shared")
        )
    if isinstance(ours, tuple | list):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    return ours == theirs or (ours != ours and theirs != theirs)  # NaN is NaN


def assert_same_estimator(ours, theirs):
    assert type(ours) is type(theirs)
    assert vars(ours).keys() == vars(theirs).keys()
    different = [name for name in vars(ours) if not same(vars(ours)[name], vars(theirs)[name])]
    left_out = {"pool_", "oof_prediction_", "cv_error_", "cv_standard_error_"}  # as large as the pool or the rows
    assert set(different) <= left_out
    assert all(getattr(theirs, name) is None for name in left_out)


@pytest.mark.parametrize("name", REGRESSORS)
def test_a_regressor_comes_back_as_it_was(name, fitted, rows, tmp_path):
    model, (X, _) = fitted[name], rows
    save(model, tmp_path / "model.rflaf")
    again = load(tmp_path / "model.rflaf")
    assert_same_estimator(model, again)
    assert np.array_equal(again.predict(X), model.predict(X))
    assert np.array_equal(again.predict(X.astype(np.float32)), model.predict(X.astype(np.float32)))
    assert np.array_equal(again.transform(X), model.transform(X))
    if model.model_.last_layer is not None:
        assert np.array_equal(again.predict(X, return_std=True)[1], model.predict(X, return_std=True)[1])
        assert np.array_equal(again.prune(2).predict(X), model.prune(2).predict(X))


@pytest.mark.parametrize("name", REGRESSORS)
def test_a_regressor_learns_on_from_its_file(name, fitted, rows, tmp_path):
    X, y = rows
    save(fitted[name], tmp_path / "model.rflaf")
    here, there = load(tmp_path / "model.rflaf"), load(tmp_path / "model.rflaf")
    here.partial_fit(X[:50], np.abs(y[:50]))
    save(here, tmp_path / "more.rflaf")
    assert_same_estimator(here, load(tmp_path / "more.rflaf"))
    there.partial_fit(X[:50], np.abs(y[:50])).partial_fit(X[50:90], np.abs(y[50:90]))
    again = load(tmp_path / "more.rflaf").partial_fit(X[50:90], np.abs(y[50:90]))
    assert np.array_equal(again.predict(X), there.predict(X))


LABELS = {
    "text": np.array(["no", "yes", "perhaps"]),
    "objects": np.array(["no", "yes", "perhaps"], dtype=object),
    "whole": np.array([3, -1, 7], dtype=np.int32),
    "numbers": np.array([0.0, 1.0, 2.0]),
    "two": np.array(["no", "yes", "yes"]),
    "truth": np.array([False, True, True]),
}


@pytest.mark.parametrize(("kind", "loss"), [*((kind, "log_loss") for kind in LABELS), ("two", "squared_hinge")])
def test_a_classifier_comes_back_with_its_labels(kind, loss, rows, tmp_path):
    X, y = (values[:80] for values in rows)
    labels = LABELS[kind][np.digitize(y, [0.5, 1.5])]
    weights = {label: 1.0 + at for at, label in enumerate(np.unique(labels).tolist())}
    model = RFLAFClassifier(2, **CONVEX, alpha=1e-3, loss=loss, class_weight=weights, random_state=0).fit(X, labels)
    save(model, tmp_path / "model.rflaf")
    again = load(tmp_path / "model.rflaf")
    assert_same_estimator(model, again)
    assert again.classes_.dtype == model.classes_.dtype
    assert np.array_equal(again.predict(X), model.predict(X))
    if loss == "log_loss":
        assert np.array_equal(again.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("name", REGRESSORS)
def test_a_file_of_single_precision_predicts_nearly_the_same(name, fitted, rows, tmp_path):
    model, (X, y) = fitted[name], rows
    save(model, tmp_path / "whole.rflaf")
    save(model, tmp_path / "small.rflaf", dtype="float32")
    small, light = load(tmp_path / "small.rflaf"), load_predictor(tmp_path / "small.rflaf")
    wanted = model.predict(X)
    for found in (small.predict(X), light.predict(X)):
        assert np.max(np.abs(found - wanted)) < 1e-5 * wanted.std()
    assert (tmp_path / "small.rflaf").stat().st_size < (tmp_path / "whole.rflaf").stat().st_size
    for learn in (lambda: small.partial_fit(X[:50], np.abs(y[:50])), lambda: small.prune(2)):
        with pytest.raises(InvalidParameterError, match="dtype='float64'"):
            learn()
    save(small, tmp_path / "again.rflaf")
    assert np.array_equal(load(tmp_path / "again.rflaf").predict(X), small.predict(X))


def test_numbers_beyond_single_precision_are_not_saved_in_it(fitted, tmp_path):
    model = copy.copy(fitted["fixed, refined"])
    activation = model.model_.activation
    huge = replace(activation, coefficients=activation.coefficients + 1e300)
    model.model_ = replace(model.model_, activation=huge)
    with pytest.raises(InvalidParameterError, match="finite"):
        save(model, tmp_path / "model.rflaf", dtype="float32")
    with pytest.raises(InvalidParameterError, match="float32 or float64"):
        save(model, tmp_path / "model.rflaf", dtype="float16")
    assert not list(tmp_path.iterdir())


def test_a_transformer_and_many_outputs_come_back(rows, tmp_path):
    X, y = rows
    for model in (RandomActivationFeatures(4, **CONVEX, random_state=0), RFLAFRegressor(4, **CONVEX, random_state=0)):
        model.fit(X, np.column_stack([y, X[:, 0]]))
        save(model, tmp_path / "model.rflaf")
        assert_same_estimator(model, load(tmp_path / "model.rflaf"))


def test_names_of_features_come_back(rows, tmp_path):
    X, y = rows
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = RFLAFRegressor(4, **CONVEX, random_state=0).fit(frame, y)
    save(model, tmp_path / "model.rflaf", provenance={"data": "made up", "metrics": {"r2": 0.5, "odd": np.nan}})
    again = load(tmp_path / "model.rflaf")
    assert again.feature_names_in_.tolist() == ["a", "b", "c"]
    assert np.array_equal(again.predict(frame), model.predict(frame))
    about = describe_file(tmp_path / "model.rflaf")
    assert about["provenance"] == {"data": "made up", "metrics": {"r2": 0.5, "odd": "NaN"}}
    assert about["arrays"]["model.directions.W"] == {"dtype": "F64", "shape": [3, 4]}
    assert about["bytes"] == (tmp_path / "model.rflaf").stat().st_size
    assert about["library"] == rflaf.__version__
    json.dumps(about)


def made_table(n_rows=240):
    rng = np.random.default_rng(1)
    x, side = rng.standard_normal(n_rows).round(3), rng.choice(["left", "mid", "right", ""], n_rows)
    day = [f"2024-{1 + i % 12:02d}-{1 + i % 28:02d}" for i in range(n_rows)]
    return pa.table({"x": x, "side": side, "day": day, "y": np.abs(x) + (side == "left")})


def test_an_estimator_with_an_encoding_comes_back_whole(tmp_path):
    table = made_table()
    model = RFLAFRegressor(5, **CONVEX, random_state=0).fit(table, "y")
    save(model, tmp_path / "model.rflaf", provenance={"data": "made up"})
    save(load(tmp_path / "model.rflaf"), tmp_path / "model.rflaf", provenance={"date": "today"})
    again = load(tmp_path / "model.rflaf")
    assert (again.table_encoding_, again.target_encoding_) == (model.table_encoding_, model.target_encoding_)
    assert again.provenance_ == {"data": "made up", "date": "today"}
    assert np.array_equal(again.predict(table), model.predict(table))
    assert again.score(table, "y") == model.score(table, "y")


@pytest.mark.parametrize("format_number", range(1, persistence.FORMAT + 1))
def test_a_file_of_every_format_is_still_read(format_number):
    """The golden files are never written anew: a change that cannot read them needs another format number."""
    expected = json.loads((GOLDEN / f"format{format_number}.json").read_text())
    model = load(GOLDEN / f"format{format_number}.rflaf")
    assert describe_file(GOLDEN / f"format{format_number}.rflaf")["format"] == persistence.FORMAT
    table = pa.table(expected["rows"])
    assert np.allclose(model.predict(table), expected["predictions"], rtol=1e-9)
    assert np.allclose(model.predict(table, return_std=True)[1], expected["std"])
    assert model.provenance_ == expected["provenance"]


@pytest.mark.parametrize("name", ["table_price", "table_dear", "file_price", "file_dear"])
def test_tables_and_files_of_format_1_predict_the_same(name):
    """``table_*`` held an encoding beside the estimator, ``file_*`` in it; both are estimators now."""
    expected = json.loads((GOLDEN / "format1_tables.json").read_text())[name]
    model, new = load(GOLDEN / f"format1_{name}.rflaf"), GOLDEN / "format1_new.csv"
    for rows in (new, read_table(new), pd.read_csv(new, dtype=str, keep_default_na=False)):
        for method, answers in expected.items():
            found, stored = getattr(model, method)(rows), np.array(answers)
            if stored.dtype.kind == "f":  # another processor may round otherwise
                np.testing.assert_allclose(found, stored, rtol=1e-12)
            else:
                np.testing.assert_array_equal(found, stored)
    assert (model.target_encoding_ is None) == name.startswith("file")


def test_files_appear_whole_or_not_at_all(fitted, tmp_path, monkeypatch):
    path = tmp_path / "model.rflaf"
    path.write_text("before")
    monkeypatch.setattr(persistence, "pack", lambda *parts: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        save(fitted["shared"], path)
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]
    monkeypatch.undo()
    save(fitted["shared"], path)
    assert list(tmp_path.iterdir()) == [path]
    assert path.stat().st_mode & 0o777 == 0o666 & ~outputs._umask()


class OwnLoss(Squared):
    pass


class OwnDensity:
    name = "own"

    def sample(self, n_features, n_components, rng):
        return rng.standard_normal((n_features, n_components))

    def log_density(self, W):
        return np.zeros(W.shape[1])


def test_only_what_is_of_this_package_is_saved(rows, fitted, tmp_path):
    X, y = rows
    path = tmp_path / "model.rflaf"
    with pytest.raises(InvalidParameterError, match="only estimators of this package can be saved; got 'dict'"):
        save({}, path)
    with pytest.raises(ValueError, match="not fitted yet"):
        save(RFLAFRegressor(), path)
    for arguments in ({"loss": OwnLoss()}, {"density": OwnDensity()}):
        with pytest.raises(InvalidParameterError, match="must be of this package to be saved without code"):
            save(RFLAFRegressor(3, **CONVEX, **arguments).fit(X, y), path)
    with pytest.raises(InvalidParameterError, match="a callable cannot be saved: a model file holds no code"):
        save(RFLAFRegressor(3, **CONVEX, basis=FixedActivation(np.arctan)).fit(X, y), path)
    with pytest.raises(InvalidParameterError, match="provenance must be plain values"):
        save(fitted["shared"], path, provenance={(1, 2): 3})
    with pytest.raises(InvalidParameterError, match="must fit into the header of a model file"):
        save(fitted["shared"], path, provenance={"log": "x" * 2**24})
    labels = np.array([1, "a"], dtype=object)[(X[:, 0] > 0).astype(int)]
    model = RFLAFClassifier(3, **CONVEX).fit(X, X[:, 0] > 0)
    model.classes_ = np.unique(labels.astype(str)).astype(object)
    model.classes_[0] = 1
    with pytest.raises(InvalidParameterError, match="labels must be texts, whole numbers"):
        save(model, path)
    assert not path.exists()


def test_a_model_that_could_not_be_read_is_not_saved(rows, tmp_path):
    X, y = rows
    model = RFLAFRegressor(3, **CONVEX).fit(X, y)
    model.model_.v[0] = np.nan
    with pytest.raises(InvalidParameterError, match="a model must be finite and of one piece to be saved"):
        save(model, tmp_path / "model.rflaf")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("state", [np.random.default_rng(0), np.random.RandomState(0)])
def test_a_generator_is_not_saved(state, rows, tmp_path):
    X, y = rows
    save(RFLAFRegressor(3, **CONVEX, random_state=state).fit(X, y), tmp_path / "model.rflaf")
    assert load(tmp_path / "model.rflaf").random_state is None


@pytest.mark.parametrize("where", ["none/model.rflaf", "."])
def test_an_output_that_cannot_be_written_is_refused(where, fitted, tmp_path):
    with pytest.raises(InvalidParameterError, match="the output must be a file in a folder that exists"):
        save(fitted["shared"], tmp_path / where)


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux")
def test_a_folder_that_cannot_be_written_is_refused(fitted):
    with pytest.raises(InvalidParameterError, match="the folder of the output must be writable"):
        save(fitted["shared"], "/proc/model.rflaf")


def forge(fitted, path, change):
    """A file with a right checksum whose header and arrays were changed."""
    save(fitted, path)
    header, arrays = fuzz_model_files.parts(path.read_bytes())
    change(header, arrays)
    path.write_bytes(fuzz_model_files.forged(header, arrays))
    return path


FORGERIES = {
    "this version reads the formats 1 to 6, not 7": lambda h, a: h.update(format=7),
    "one of RFLAFRegressor": lambda h, a: h.update({"class": "Popen"}),
    "header.parameters must be an object of": lambda h, a: h["parameters"].update(shell=True),
    "alpha must be 'auto' or a number": lambda h, a: h["parameters"].update(alpha=-1),
    "header.feature_names must be 3 names": lambda h, a: h.update(feature_names=["a"]),
    "must be of shape (9, None)": lambda h, a: h.update(n_features=9),
    "has no 'model'": lambda h, a: h["fitted"].pop("model"),
    "header.fitted.model.v must be finite": lambda h, a: a["model.v"].fill(np.nan),
    "an array of numbers": lambda h, a: a.update({"model.v": a["model.v"].astype(np.int64)}),
    "an array of whole numbers": lambda h, a: a.update({"model.curves.knots.columns": np.zeros(1)}),
    "increasing numbers below 3": lambda h, a: a["model.curves.knots.columns"].__setitem__(-1, 99),
    "increasing from 0": lambda h, a: a["model.curves.knots.start"].__setitem__(1, 10**9),
    "increasing within a column": lambda h, a: a["model.curves.knots.nodes"].fill(0.0),
    "sums of squares": lambda h, a: a["model.last_layer.equations.moments"].fill(-1.0),
    "at least zero": lambda h, a: a["model.last_layer.noise"].fill(-1.0),
    "is of type I8": lambda h, a: a.update({"trace": np.zeros(3, np.int8)}),
    "its activations would take": lambda h, a: h["fitted"]["model"]["activation"].update(
        basis={"class": "RBFBasis", "n_basis": 1024, "interval": [0.0, 1.0], "width": 0.001}
    ) or a.update({"model.activation.coefficients": np.ones((5, 1024))}),
    "of 1024 columns": lambda h, a: h["fitted"]["model"]["activation"]["basis"].update(n_basis=1024),
    "a whole number from 1 to 1024": lambda h, a: h["fitted"]["model"]["activation"]["basis"].update(n_basis=10**9),
    "at most 1e+100 in size": lambda h, a: h["fitted"]["model"]["activation"]["basis"].update(interval=[0, 1e300]),
    "activation.basis.width must be at most": lambda h, a: h["fitted"]["model"]["activation"].update(
        basis={"class": "RBFBasis", "n_basis": 16, "interval": [0.0, 1.0], "width": 1e308}),
    "two numbers apart": lambda h, a: h["fitted"]["model"]["activation"]["basis"].update(interval=[0, 5e-324]),
    "surrogates not allowed": lambda h, a: h["provenance"].update(data="\ud800"),
    "true or false": lambda h, a: h["fitted"].update(single_output=1),
    "header.fitted.trials[0].width must be a whole number": lambda h, a: h["fitted"]["trials"][0].update(width=-1),
}  # fmt: skip


@pytest.mark.parametrize("message", FORGERIES)
def test_a_forged_file_is_refused_with_what_is_wrong(message, fitted, tmp_path):
    path = forge(fitted["refined"], tmp_path / "model.rflaf", FORGERIES[message])
    with pytest.raises(UnreadableModelFile) as caught:
        load(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)


def test_an_array_that_many_places_name_is_in_memory_once(fitted, tmp_path):
    def repeat(header, arrays):
        trial = header["fitted"]["trials"][0]
        header["fitted"]["trials"] = [{**trial, "strength": {"array": "many"}}] * 300
        arrays["many"] = np.ones(50_000, np.float32)

    path = forge(fitted["refined"], tmp_path / "model.rflaf", repeat)
    tracemalloc.start()
    with contextlib.suppress(UnreadableModelFile):
        load(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 30 * path.stat().st_size


def test_a_flipped_bit_is_seen(fitted, tmp_path):
    path = tmp_path / "model.rflaf"
    save(fitted["shared"], path)
    data = bytearray(path.read_bytes())
    data[-20] ^= 1
    path.write_bytes(data)
    with pytest.raises(UnreadableModelFile, match="the checksum differs"):
        load(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "does not begin as a model file does"),
        (b"PK\x03\x04 anything", "does not begin as a model file does"),
        (fuzz_model_files.pack({"x": np.zeros(2)}), "it holds arrays but is no model of this package"),
        (fuzz_model_files.pack({"x": np.zeros(2)}, {"rflaf": "{", "sha256": ""}), "its header is not JSON"),
        (fuzz_model_files.pack({"x": np.zeros(2)}, {"rflaf": "[" * 9999, "sha256": ""}), "its header is not JSON"),
        (fuzz_model_files.pack({"x": np.zeros(2)}, {"rflaf": "NaN", "sha256": ""}), "NaN is no number"),
        (fuzz_model_files.pack({"x": np.zeros(2)}, {"rflaf": "[]", "sha256": ""}), "is not a JSON object"),
        (fuzz_model_files.joined(b"[" + b"0," * 500_000 + b"0]", b""), "its header has more than 400000 values"),
    ],
    ids=range(8),
)
def test_what_is_no_model_is_refused(content, message, tmp_path):
    (tmp_path / "model.rflaf").write_bytes(content)
    for read in (load, describe_file):
        with pytest.raises(UnreadableModelFile, match=message):
            read(tmp_path / "model.rflaf")


def test_a_file_that_is_not_there_is_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none.rflaf")


def test_an_error_about_a_file_can_be_sent_between_processes():
    error = pickle.loads(pickle.dumps(UnreadableModelFile("a.rflaf", "it is empty")))
    assert str(error) == "a.rflaf cannot be read as a model: it is empty"


@pytest.mark.slow
def test_mutated_files_end_in_an_error_or_a_model():
    tally = fuzz_model_files.run(600, seed=3)
    assert tally["failures"] == []
    assert tally["forbidden"] == {}
    assert tally["megabytes"] < fuzz_model_files.MOST_MEGABYTES
    assert sum(tally["ends"].values()) == 600
    assert any(end.endswith("a model") for end in tally["ends"])


@pytest.mark.parametrize("name", ["refined", "paper", "quantile"])
def test_estimators_pickle_clone_and_dump(name, fitted, rows, tmp_path):
    model, (X, _) = fitted[name], rows
    expected = model.predict(X)
    assert np.array_equal(pickle.loads(pickle.dumps(model)).predict(X), expected)
    joblib.dump(model, tmp_path / "model.joblib")
    assert np.array_equal(joblib.load(tmp_path / "model.joblib").predict(X), expected)
    assert clone(model).get_params() == model.get_params()
    assert not hasattr(clone(model), "model_")


def test_without_safetensors_the_extra_is_named(monkeypatch, fitted, tmp_path):
    monkeypatch.setitem(sys.modules, "safetensors", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'rflaf\[save\]'"):
        save(fitted["shared"], tmp_path / "model.rflaf")
    with pytest.raises(MissingExtraError):
        load(tmp_path / "model.rflaf")


def test_arguments_that_are_objects_come_back(fitted, tmp_path):
    save(fitted["parts"], tmp_path / "model.rflaf")
    again = load(tmp_path / "model.rflaf")
    assert again.get_params() == fitted["parts"].get_params()
    assert again.loss_ == Huber(0.5)
    assert isinstance(fitted["quantile"].loss_, Pinball)


OLD = {
    "paper": {"sampling": "leverage", "pool_size": 20, "leverage_alpha": "auto", "leverage_rows": "all"},
    "greedy": {"sampling": "greedy", "pool_size": 20},
    "refined": {"loss": {"class": "Squared"}, "outliers": "auto", "pool_size": "auto", "n_basis": 16},
}


@pytest.mark.parametrize("name", OLD)
def test_arguments_under_their_former_names_are_read(name, fitted, rows, tmp_path):
    """As files of earlier versions of the library hold them."""

    def age(header, arrays):
        del header["parameters"]["width_tolerance"]
        header["parameters"] |= {**OLD[name], "tolerance": 0.01, "max_iter": 500, "tol": 1e-4, "half_life": None}

    again = load(forge(fitted[name], tmp_path / "old.rflaf", age))
    assert_same_estimator(fitted[name], again)
    assert np.array_equal(again.predict(rows[0]), fitted[name].predict(rows[0]))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"pool_size": 0}, "pool_size must be 'auto' or a whole number"),
        ({"alpha": [1]}, "header.parameters.sampling.alpha must be a label"),
        ({"rows": None}, "rows must be 'all' or a whole number"),
        ({"shell": 1}, "of pool_size, alpha, rows"),
    ],
)
def test_a_forged_sampling_is_refused(values, message, fitted, tmp_path):
    path = forge(fitted["paper"], tmp_path / "forged.rflaf", lambda h, a: h["parameters"]["sampling"].update(values))
    with pytest.raises(UnreadableModelFile, match=message):
        load(path)


def test_intervals_of_a_file_of_single_precision_are_nearly_the_same_and_no_narrower(rows, tmp_path):
    X, y = rows
    model = RFLAFRegressor(4, random_state=0).fit(X, y)
    save(model, tmp_path / "small.rflaf", dtype="float32")
    again = load(tmp_path / "small.rflaf")
    assert model._bands is not None
    assert again.trials_ == ()
    for side in ("below", "above"):
        wanted, found = getattr(model._bands, side), getattr(again._bands, side)
        assert (found.radii >= wanted.radii).all()
        assert np.allclose(found.radii, wanted.radii, rtol=2e-7)
        assert (found.levels <= wanted.levels).all()
        assert np.allclose(found.levels, wanted.levels, rtol=2e-7)


def test_levels_that_single_precision_cannot_tell_apart_stay_in_double():
    close = 1 - 1e-9 * np.arange(5.0, 0, -1)
    assert np.array_equal(_halved("bands.below.levels", close), close)
    assert _halved("bands.below.levels", np.linspace(0.1, 0.9, 5)).dtype == np.float32


def test_equal_arrays_are_written_once(rows, tmp_path):
    X, y = rows
    model = RFLAFRegressor(4, random_state=0).fit(X, y)
    save(model, tmp_path / "model.rflaf")
    written = describe_file(tmp_path / "model.rflaf")
    assert model._bands.both
    assert "bands.above.radii" not in written["arrays"]
    assert written["fitted"]["bands"]["above"]["radii"] == {"array": "bands.below.radii"}
    assert_same_estimator(model, load(tmp_path / "model.rflaf"))
