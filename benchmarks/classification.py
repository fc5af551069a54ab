"""Cross-entropy of the classifiers on adult and CIFAR-10, and of what they are measured against.

python benchmarks/classification.py [adult | cifar10 ...] [--seeds 0 1 2] [--rows N] [--widths 10 30 100 300]. On adult
(adult.data, 80/20, one-hot with the first level dropped) cross-entropy is also a ratio to scikit-learn's
LogisticRegression on the same split and columns, so that the rows of the table show what each ingredient closes. ECE is
the expected calibration error over 15 bins.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from time import perf_counter

import numpy as np
from memory import peak_bytes
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tables import load

from rflaf import RFLAFClassifier

RANDOM = {"directions": "random"}
SHARED = {"directions": "random", "activation": "shared"}


def calibration_error(p: np.ndarray, classes: np.ndarray, y: np.ndarray, n_bins: int = 15) -> float:
    """Mean gap between how sure the most likely class is and how often it is right, over bins of sureness."""
    sure, right = p.max(axis=1), classes[p.argmax(axis=1)] == y
    bins = np.minimum((sure * n_bins).astype(int), n_bins - 1)
    gaps = [abs(sure[bins == b].sum() - right[bins == b].sum()) for b in range(n_bins)]
    return float(np.sum(gaps) / len(y))


def for_adult(seed: int, widths: list[int], trees: list[int]) -> dict[str, object]:
    from lightgbm import LGBMClassifier

    models: dict[str, object] = {
        "logistic regression": make_pipeline(StandardScaler(), LogisticRegression(max_iter=5000))
    }
    *narrow, usual, wide = widths
    for width in (usual, wide):
        models[f"paper's model, plain, S={width}"] = RFLAFClassifier(width, random_state=seed, **SHARED)
    models[f"paper, S={usual}"] = RFLAFClassifier.paper(usual, random_state=seed)
    models[f"one activation per component, S={usual}"] = RFLAFClassifier(usual, random_state=seed, **RANDOM)
    models[f"convex: chosen greedily too, S={usual}"] = RFLAFClassifier.convex(usual, random_state=seed)
    models[f"refined, no curves, S={usual}"] = RFLAFClassifier(usual, curves=False, random_state=seed)
    for width in (*narrow, usual):
        models[f"default: refined, curves, S={width}"] = RFLAFClassifier(width, random_state=seed)
    for n_trees in trees:
        models[f"LightGBM, {n_trees} trees"] = LGBMClassifier(
            n_estimators=n_trees, n_jobs=2, random_state=seed, verbose=-1
        )
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


def compare_on_adult(given: argparse.Namespace) -> None:
    X, y = load("adult", given.rows)
    outcomes: dict[str, list[tuple[float, ...]]] = {}
    for seed in given.seeds:
        X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.2, random_state=seed)
        linear = 0.0
        for name, model in for_adult(seed, given.widths, given.trees).items():
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


def compare_on_cifar10(given: argparse.Namespace) -> None:
    X, y = load("cifar10", given.rows)
    n_train = 5 * len(y) // 6
    (X, X_test), (y, y_test) = np.split(X, [n_train]), np.split(y, [n_train])
    plain, refined = 10 * given.widths[-2], given.widths[-1]
    for seed in given.seeds:
        models = {
            f"paper's model, plain, S={plain}": RFLAFClassifier(plain, random_state=seed, **SHARED),
            f"default: refined, S={refined}": RFLAFClassifier(refined, random_state=seed),
        }
        for name, model in models.items():
            entropy, accuracy, gap, seconds = measure(model, X, y, X_test, y_test)
            peak = peak_bytes() / 1e9
            print(
                f"cifar10  {name:<36} seed {seed}   cross-entropy {entropy:.4f}   accuracy {accuracy:.4f}"
                f"   ECE {gap:.4f}   {seconds:6.1f} s   peak so far {peak:.2f} GB",
                flush=True,
            )


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="adult, cifar10; both unless named")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="seeds of the splits and models")
    parser.add_argument("--rows", type=int, help="first rows of each table; all unless given")
    parser.add_argument("--widths", type=int, nargs="+", default=[10, 30, 100, 300], help="at least two")
    parser.add_argument("--trees", type=int, nargs="+", default=[100, 1000])
    given = parser.parse_args(argv)
    comparisons = {"adult": compare_on_adult, "cifar10": compare_on_cifar10}
    for name in given.names or comparisons:
        comparisons[name](given)


if __name__ == "__main__":
    main()
