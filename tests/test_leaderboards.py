"""The adapters in examples/leaderboards answer as the estimators do, by the contracts of TALENT and TabArena."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import log_loss

from rflaf import RFLAFClassifier, RFLAFRegressor

FOLDER = Path(__file__).parent.parent / "examples" / "leaderboards"
SETTINGS = {"n_components": 4, "directions": "random"}
PARTS = {"train": slice(0, 120), "val": slice(120, 150), "test": slice(150, 200)}


def adapter(name):
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)  # where a pickle of AutoGluon finds it
    spec.loader.exec_module(module)
    return module


def rows():
    rng = np.random.default_rng(0)
    numbers, colour = rng.standard_normal((200, 2)), rng.choice(["red", "green", "blue"], (200, 1))
    return numbers, colour, numbers[:, 0] ** 2 + (colour[:, 0] == "red") + 0.1 * rng.standard_normal(200)


def in_parts(values):
    return None if values is None else {part: values[where] for part, where in PARTS.items()}


def frame(numbers, colour):
    both = pd.DataFrame(numbers, columns=["n0", "n1"])
    return both if colour is None else both.assign(c0=colour[:, 0])


def talent(tmp_path, numbers, colour, y, is_regression):
    """The whole way of TALENT: fit, then predict by a method made anew."""
    module = adapter("rflaf_talent")
    args = SimpleNamespace(config={"model": SETTINGS}, seed=0, save_path=tmp_path)
    data = (in_parts(numbers), in_parts(colour), in_parts(y))
    fitted = module.RFLAFMethod(args, is_regression)
    assert fitted.fit(data, {}) > 0
    return fitted.trlog["best_res"], *module.RFLAFMethod(args, is_regression).predict(data, {}, "best-val")


def test_a_regression_by_the_contract_of_talent_is_that_of_the_estimator(tmp_path):
    numbers, colour, y = rows()
    on_val, values, names, answer = talent(tmp_path, numbers, colour, y, is_regression=True)
    X = frame(numbers, colour)
    model = RFLAFRegressor(**SETTINGS, random_state=0).fit(X[PARTS["train"]], y[PARTS["train"]])
    np.testing.assert_array_equal(answer, model.predict(X[PARTS["test"]]))
    error = y[PARTS["test"]] - answer
    expected = {"MAE": np.abs(error).mean(), "RMSE": np.sqrt((error**2).mean())}
    assert dict(zip(names, values, strict=True)) == pytest.approx(
        expected | {"R2": 1 - (error**2).sum() / ((y[PARTS["test"]] - y[PARTS["test"]].mean()) ** 2).sum()}
    )
    off = y[PARTS["val"]] - model.predict(X[PARTS["val"]])
    assert on_val == pytest.approx(np.sqrt((off**2).mean()))


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [2, 3])
def test_labels_by_the_contract_of_talent_are_those_of_the_estimator(n_classes, tmp_path):
    numbers, _, y = rows()
    label = np.array(["low", "middle", "high"])[np.digitize(y, np.quantile(y, np.arange(1, n_classes) / n_classes))]
    on_val, values, names, answer = talent(tmp_path, numbers, None, label, is_regression=False)
    X = frame(numbers, None)
    model = RFLAFClassifier(**SETTINGS, random_state=0).fit(X[PARTS["train"]], label[PARTS["train"]])
    np.testing.assert_array_equal(answer, model.predict_proba(X[PARTS["test"]]))
    found = dict(zip(names, values, strict=True))
    assert found["Accuracy"] == model.score(X[PARTS["test"]], label[PARTS["test"]])
    assert found["LogLoss"] == pytest.approx(log_loss(label[PARTS["test"]], answer, labels=model.classes_))
    assert 0.5 < found["AUC"] <= 1
    assert on_val == model.score(X[PARTS["val"]], label[PARTS["val"]])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "value"),
    [
        (name, value)
        for name, (_, values) in adapter("rflaf_talent").SEARCH_SPACE["model"].items()
        for value in values
        if name != "n_components" and value != RFLAFRegressor().get_params()[name]
    ],
)
def test_every_setting_of_the_search_space_of_talent_fits(name, value):
    numbers, _, y = rows()
    model = RFLAFRegressor(3, **{name: value}, random_state=0).fit(numbers[:40], y[:40])
    assert np.isfinite(model.predict(numbers)).all()


@pytest.mark.parametrize("task", ["regression", "binary", "multiclass"])
def test_a_model_of_tabarena_answers_as_the_estimator(task, tmp_path):
    pytest.importorskip("autogluon.core", reason="AutoGluon is not installed", exc_type=ImportError)
    module = adapter("rflaf_tabarena")
    numbers, colour, y = rows()
    X = frame(numbers, colour).astype({"c0": "category"})
    X.loc[3, "n1"] = np.nan
    target = y if task == "regression" else np.digitize(y, [0.7] if task == "binary" else [0.4, 1.2])
    model = module.RFLAFModel(path=str(tmp_path), name="rflaf", problem_type=task, hyperparameters=SETTINGS)
    model.fit(X=X[PARTS["train"]], y=pd.Series(target)[PARTS["train"]], num_cpus=1, num_gpus=0)
    kind = RFLAFRegressor if task == "regression" else RFLAFClassifier
    plain = kind(**SETTINGS, random_state=0).fit(X[PARTS["train"]], target[PARTS["train"]])
    rows_of_test = X[PARTS["test"]]
    np.testing.assert_allclose(model.predict(rows_of_test), plain.predict(rows_of_test), rtol=1e-5)  # in float32
    if task == "multiclass":
        np.testing.assert_allclose(model.predict_proba(rows_of_test), plain.predict_proba(rows_of_test), rtol=1e-6)
    if task == "binary":
        probability = plain.predict_proba(rows_of_test)[:, 1]
        np.testing.assert_allclose(model.predict_proba(rows_of_test), probability, rtol=1e-6)
    model.save()
    again = module.RFLAFModel.load(str(model.path))
    np.testing.assert_array_equal(again.predict(rows_of_test), model.predict(rows_of_test))
