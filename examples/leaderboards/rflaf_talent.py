"""rflaf in the form of TALENT's classical methods: the method, its default and its search space, on one page.

TALENT calls a method as ``Method(args, is_regression)``, then ``fit(data, info)``, then ``predict(data, info, name)``,
with ``data = (N, C, y)``: dictionaries of numbers, of categories and of targets by the parts "train", "val" and "test",
N or C None where a table has none. Numbers and categories go to the model as one frame, unencoded. How to run and
submit it is in docs/leaderboards.md.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn import metrics

import rflaf

DEFAULT = {"model": {"n_components": 100}}  # configs/default/rflaf.json
SEARCH_SPACE = {  # configs/opt_space/rflaf.json
    "model": {
        "n_components": ["categorical", [30, 100, 300]],
        "curves": ["categorical", ["auto", True, False]],
        "activation": ["categorical", ["per_component", "shared"]],
    }
}


class RFLAFMethod:
    """One model of one seed; ``args`` has ``config``, ``seed`` and ``save_path``."""

    def __init__(self, args: Any, is_regression: bool) -> None:
        self.args, self.is_regression = args, is_regression
        self.trlog: dict[str, float] = {}

    def construct_model(self, model_config: dict[str, Any] | None = None) -> None:
        """Make the estimator of a configuration."""
        settings = self.args.config["model"] if model_config is None else model_config
        kind = rflaf.RFLAFRegressor if self.is_regression else rflaf.RFLAFClassifier
        self.model = kind(**settings, random_state=self.args.seed)

    def fit(self, data: tuple[Any, Any, Any], info: Any, train: bool = True, config: Any = None) -> float | None:
        """Fit on "train", judge on "val" for a search, and save; return the seconds."""
        if config is not None:
            self.args.config = config
        self.construct_model()
        if not train:
            return None
        N, C, y = data
        start = time.time()
        self.model.fit(table(N, C, "train"), np.ravel(y["train"]))
        seconds = time.time() - start
        self.trlog["best_res"] = self._judge(table(N, C, "val"), np.ravel(y["val"]))
        rflaf.save(self.model, self._path())
        return seconds

    def predict(self, data: tuple[Any, Any, Any], info: Any, model_name: str = "best-val") -> tuple[Any, Any, Any]:
        """Return the measures of the saved model on "test", their names, and its predictions or probabilities."""
        N, C, y = data
        self.model = rflaf.load(self._path())
        rows, truth = table(N, C, "test"), np.ravel(y["test"])
        answer = self.model.predict(rows) if self.is_regression else self.model.predict_proba(rows)
        return *self.metric(answer, truth, None), answer

    def metric(self, answer: Any, truth: Any, y_info: Any) -> tuple[tuple[float, ...], tuple[str, ...]]:
        """The measures that TALENT reports, in its order."""
        if self.is_regression:
            absolute, root = (f(truth, answer) for f in (metrics.mean_absolute_error, metrics.root_mean_squared_error))
            return (absolute, metrics.r2_score(truth, answer), root), ("MAE", "R2", "RMSE")
        classes = self.model.classes_
        label, binary = classes[np.argmax(answer, axis=1)], len(classes) == 2
        f1 = {"average": "binary", "pos_label": classes[1]} if binary else {"average": "macro"}
        area = (
            metrics.roc_auc_score(truth == classes[1], answer[:, 1])
            if binary
            else metrics.roc_auc_score(truth, answer, multi_class="ovr", labels=classes)
        )
        found = (
            metrics.accuracy_score(truth, label),
            metrics.balanced_accuracy_score(truth, label),
            metrics.precision_score(truth, label, average="macro", zero_division=0),
            metrics.f1_score(truth, label, **f1),
            metrics.log_loss(truth, answer, labels=classes),
            area,
        )
        return found, ("Accuracy", "Avg_Recall", "Avg_Precision", "F1", "LogLoss", "AUC")

    def _judge(self, rows: pd.DataFrame, truth: Any) -> float:
        """What a search maximises, or minimises for regressions: accuracy, or the root mean squared error."""
        answer = self.model.predict(rows)
        judge = metrics.root_mean_squared_error if self.is_regression else metrics.accuracy_score
        return float(judge(truth, answer))

    def _path(self) -> Path:
        return Path(self.args.save_path) / f"best-val-{self.args.seed}.rflaf"


def table(N: Any, C: Any, part: str) -> pd.DataFrame:
    """Numbers and categories of one part as one frame."""
    frames = []
    if N is not None:
        frames.append(pd.DataFrame(N[part]).add_prefix("n").astype(np.float64))
    if C is not None:
        frames.append(pd.DataFrame(C[part]).add_prefix("c").astype(str))
    return pd.concat(frames, axis=1)
