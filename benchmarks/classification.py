"""Cross-entropy of the classifiers on adult and CIFAR-10, and of what they are measured against.

python benchmarks/classification.py [adult | cifar10 ...] [--seeds 0 1 2]. On adult (adult.data, 80/20, one-hot with the
first level dropped) cross-entropy is also a ratio to scikit-learn's LogisticRegression on the same split and columns,
so that the rows of the table tell what each ingredient closes. ECE is the expected calibration error over 15 bins.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
from pathlib import Path
from time import perf_counter

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from rflaf import RFLAFClassifier

FOLDER = Path(os.environ.get("RFLAF_DATA_DIR", ""))
RANDOM = {"directions": "random"}
SHARED = {"directions": "random", "activation": "shared"}


def adult() -> tuple[np.ndarray, np.ndarray]:
    """100 columns: six numbers, and eight categories one-hot without their first level."""
    lines = (FOLDER / "adult" / "adult.data").read_text().splitlines()
    table = np.array([[cell.strip() for cell in line.split(",")] for line in lines if line.strip()])
    numbers = [0, 2, 4, 10, 11, 12]
    words = [column for column in range(14) if column not in numbers]
    indicators = OneHotEncoder(drop="first", sparse_output=False).fit_transform(table[:, words])
    return np.hstack([table[:, numbers].astype(np.float64), indicators]), table[:, 14]


def cifar10() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Pixels from 0 to 1, flattened: 50,000 rows to fit and 10,000 to test."""
    images = np.load(FOLDER / "cifar10" / "cifar10.npz")
    rows = [images[name].reshape(-1, 3072).astype(np.float32) / 255 for name in ("X_train", "X_test")]
    return rows[0], images["y_train"].ravel(), rows[1], images["y_test"].ravel()


def calibration_error(p: np.ndarray, classes: np.ndarray, y: np.ndarray, n_bins: int = 15) -> float:
    """Mean gap between how sure the most likely class is and how often it is right, over bins of sureness."""
    sure, right = p.max(axis=1), classes[p.argmax(axis=1)] == y
    bins = np.minimum((sure * n_bins).astype(int), n_bins - 1)
    gaps = [abs(sure[bins == b].sum() - right[bins == b].sum()) for b in range(n_bins)]
    return float(np.sum(gaps) / len(y))


def for_adult(seed: int) -> dict[str, object]:
    from lightgbm import LGBMClassifier

    models: dict[str, object] = {
        "logistic regression": make_pipeline(StandardScaler(), LogisticRegression(max_iter=5000))
    }
    for width in (100, 300):
        models[f"paper's model, plain, S={width}"] = RFLAFClassifier(width, random_state=seed, **SHARED)
    models["paper, S=100"] = RFLAFClassifier.paper(100, random_state=seed)
    models["one activation a component, S=100"] = RFLAFClassifier(100, random_state=seed, **RANDOM)
    models["convex: chosen greedily too, S=100"] = RFLAFClassifier.convex(100, random_state=seed)
    models["refined, no curves, S=100"] = RFLAFClassifier(100, curves=False, random_state=seed)
    for width in (10, 30, 100):
        models[f"default: refined, curves, S={width}"] = RFLAFClassifier(width, random_state=seed)
    for trees in (100, 1000):
        models[f"LightGBM, {trees} trees"] = LGBMClassifier(n_estimators=trees, n_jobs=2, random_state=seed, verbose=-1)
    return models


def measure(model: object, X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray) -> tuple[float, ...]:
    """Cross-entropy, accuracy, calibration error and seconds of the fit."""
    start = perf_counter()
    model.fit(X, y)
    seconds = perf_counter() - start
    p = model.predict_proba(X_test).astype(np.float64)
    p /= p.sum(axis=1, keepdims=True)
    classes = model.classes_
    accuracy = float(np.mean(classes[p.argmax(axis=1)] == y_test))
    return log_loss(y_test, p, labels=classes), accuracy, calibration_error(p, classes, y_test), seconds


def compare_on_adult(seeds: list[int]) -> None:
    X, y = adult()
    outcomes: dict[str, list[tuple[float, ...]]] = {}
    for seed in seeds:
        X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.2, random_state=seed)
        linear = 0.0
        for name, model in for_adult(seed).items():
            found = measure(model, X_train, y_train, X_test, y_test)
            linear = linear or found[0]
            outcomes.setdefault(name, []).append((found[0] / linear, *found))
    for name, values in outcomes.items():
        ratio, entropy, accuracy, gap, seconds = np.mean(values, axis=0)
        worst = max(value[0] for value in values)
        print(
            f"adult    {name:<36} ratio {ratio:.4f} (worst {worst:.4f})   cross-entropy {entropy:.4f}"
            f"   accuracy {accuracy:.4f}   ECE {gap:.4f}   {seconds:6.2f} s",
            flush=True,
        )


def compare_on_cifar10(seeds: list[int]) -> None:
    X, y, X_test, y_test = cifar10()
    for seed in seeds:
        models = {
            "paper's model, plain, S=1000": RFLAFClassifier(1000, random_state=seed, **SHARED),
            "default: refined, S=300": RFLAFClassifier(300, random_state=seed),
        }
        for name, model in models.items():
            entropy, accuracy, gap, seconds = measure(model, X, y, X_test, y_test)
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
            print(
                f"cifar10  {name:<36} seed {seed}   cross-entropy {entropy:.4f}   accuracy {accuracy:.4f}"
                f"   ECE {gap:.4f}   {seconds:6.1f} s   peak so far {peak:.2f} GB",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="adult, cifar10; both unless named")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="seeds of the splits and models")
    options = parser.parse_args()
    comparisons = {"adult": compare_on_adult, "cifar10": compare_on_cifar10}
    for name in options.names or comparisons:
        if not os.environ.get("RFLAF_DATA_DIR") or not (FOLDER / name).is_dir():
            print(f"{name} skipped: set RFLAF_DATA_DIR to the folder that holds it", file=sys.stderr)
            continue
        comparisons[name](options.seeds)


if __name__ == "__main__":
    main()
