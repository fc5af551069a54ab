"""The contestants of breadth.py: ours at a width, and what it is measured against, each on one thread.

All get the rows as they come. Ours encodes a frame itself, LightGBM and CatBoost take text as categories, and the
others get text as indicators (linear models, Gaussian process) or numbers (extra trees), gaps filled by medians.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import minimize
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, OrdinalEncoder, StandardScaler

from rflaf import RFLAFClassifier, RFLAFRegressor

CONSTANT, LINEAR, OURS = "constant", "ridge", "ours"
MOST_GAUSSIAN_PROCESS_ROWS = 1500
MOST_SCALE_NUMBERS = 30_000_000  # derivatives by a length scale per column: rows x rows x columns numbers
MOST_STEPS = 40
MOST_LEVELS = 100


def text_columns(X: Any) -> list[str]:
    """Columns of a frame that hold no numbers."""
    return [] if isinstance(X, np.ndarray) else [name for name in X if not pd.api.types.is_numeric_dtype(X[name])]


def as_floats(X: Any) -> np.ndarray:
    return np.asarray(X, np.float64)


def as_words(X: pd.DataFrame) -> pd.DataFrame:
    """Text as plain strings; a gap is a word of its own."""
    words = {name: X[name].astype(object).where(X[name].notna(), "missing").map(str) for name in text_columns(X)}
    return X.assign(**words)


class Categories(BaseEstimator, TransformerMixin):
    """Text columns as pandas categories, those of the training rows; numbered names, since LightGBM refuses some."""

    def fit(self, X: pd.DataFrame, y: object = None) -> Categories:
        self.levels_ = {name: pd.CategoricalDtype(X[name].dropna().unique()) for name in text_columns(X)}
        return self

    def transform(self, X: pd.DataFrame) -> pd.DataFrame:
        known = {name: X[name].where(X[name].isin(levels.categories)) for name, levels in self.levels_.items()}
        numbered = [f"column{number}" for number in range(X.shape[1])]
        return X.assign(**known).astype(self.levels_).set_axis(numbered, axis=1)


def numbers_of(X: Any, encoder: Any) -> Any:
    """Any rows as numbers without gaps: text by an encoder, gaps by the median beside an indicator."""
    if isinstance(X, np.ndarray):
        return "passthrough"
    text = text_columns(X)
    filled = make_pipeline(FunctionTransformer(as_floats), SimpleImputer(strategy="median", add_indicator=True))
    words = make_pipeline(FunctionTransformer(as_words), encoder)
    return ColumnTransformer([("text", words, text), ("numbers", filled, [name for name in X if name not in text])])


def indicators(X: Any) -> Any:
    encoder = OneHotEncoder(handle_unknown="infrequent_if_exist", max_categories=MOST_LEVELS, sparse_output=False)
    return make_pipeline(numbers_of(X, encoder), StandardScaler())


def constant(task: str, X: Any, seed: int) -> Any:
    return DummyRegressor() if task == "regression" else DummyClassifier()


def ridge(task: str, X: Any, seed: int) -> Any:
    last = RidgeCV(np.logspace(-3, 4, 15)) if task == "regression" else LogisticRegression(max_iter=5000)
    return make_pipeline(indicators(X), last)


def lightgbm(n_trees: int, learning_rate: float) -> Callable[[str, Any, int], Any]:
    def make(task: str, X: Any, seed: int) -> Any:
        from lightgbm import LGBMClassifier, LGBMRegressor

        kind = LGBMRegressor if task == "regression" else LGBMClassifier
        steps = {"n_estimators": n_trees, "learning_rate": learning_rate}
        trees = kind(**steps, n_jobs=1, random_state=seed, verbose=-1)
        return trees if isinstance(X, np.ndarray) else make_pipeline(Categories(), trees)

    return make


def catboost(task: str, X: Any, seed: int) -> Any:
    from catboost import CatBoostClassifier, CatBoostRegressor

    kind = CatBoostRegressor if task == "regression" else CatBoostClassifier
    settings = {"thread_count": 1, "random_seed": seed, "verbose": False, "allow_writing_files": False}
    if isinstance(X, np.ndarray):
        return kind(**settings)
    return make_pipeline(FunctionTransformer(as_words), kind(cat_features=text_columns(X), **settings))


def extra_trees(task: str, X: Any, seed: int) -> Any:
    kind = ExtraTreesRegressor if task == "regression" else ExtraTreesClassifier
    encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    return make_pipeline(numbers_of(X, encoder), kind(n_jobs=1, random_state=seed))


def some_steps(objective: Callable[..., Any], start: np.ndarray, bounds: np.ndarray) -> tuple[np.ndarray, float]:
    """Scales after at most MOST_STEPS steps: with fifty columns, scikit-learn's own optimiser takes many minutes."""
    found = minimize(objective, start, jac=True, bounds=bounds, method="L-BFGS-B", options={"maxiter": MOST_STEPS})
    return found.x, found.fun


class GaussianProcess(BaseEstimator):
    """A process with one learned length scale per column, or one for all where their derivatives outgrow memory."""

    def __init__(self, random_state: int) -> None:
        self.random_state = random_state

    def fit(self, X: np.ndarray, y: np.ndarray) -> GaussianProcess:
        own = len(X) ** 2 * X.shape[1] <= MOST_SCALE_NUMBERS
        scales = RBF(np.full(X.shape[1] if own else 1, np.sqrt(X.shape[1])), (1e-2, 1e4))
        kernel = ConstantKernel() * scales + WhiteKernel(0.1, (1e-8, 10.0))
        process = GaussianProcessRegressor(
            kernel, optimizer=some_steps, normalize_y=True, random_state=self.random_state
        )
        self.process_ = process.fit(X, y)
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.process_.predict(X)


def gaussian_process(task: str, X: Any, seed: int) -> Any:
    return make_pipeline(indicators(X), GaussianProcess(seed))


def ours(width: int | str) -> Callable[[str, Any, int], Any]:
    def make(task: str, X: Any, seed: int) -> Any:
        kind = RFLAFRegressor if task == "regression" else RFLAFClassifier
        return kind(width, random_state=seed, n_jobs=1)

    return make


CONTESTANTS = (OURS, LINEAR, "lightgbm-100", "lightgbm-1000", "catboost", "extra-trees", "gaussian-process")


def makers(width: int | str) -> dict[str, Callable[[str, Any, int], Any]]:
    """What makes each contestant for a task, the rows to fit and a seed."""
    return {
        CONSTANT: constant,
        OURS: ours(width),
        LINEAR: ridge,
        "lightgbm-100": lightgbm(100, 0.1),
        "lightgbm-1000": lightgbm(1000, 0.03),  # many trees, shorter steps
        "catboost": catboost,
        "extra-trees": extra_trees,
        "gaussian-process": gaussian_process,
    }


def why_not(contestant: str, task: str, n_rows: int) -> str | None:
    """Why a contestant does not take part, if so: this is no failure."""
    if contestant != "gaussian-process":
        return None
    if task != "regression":
        return "regression only"
    return None if n_rows <= MOST_GAUSSIAN_PROCESS_ROWS else f"more than {MOST_GAUSSIAN_PROCESS_ROWS} training rows"


def missing_libraries(contestants: list[str]) -> list[str]:
    needed = {name.split("-")[0] for name in contestants} & {"lightgbm", "catboost"}
    return sorted(name for name in needed if find_spec(name) is None)
