"""Every argument of every public class, and every fitted attribute, is documented where editors and help() show it."""

from __future__ import annotations

import inspect
import re

import numpy as np
import pandas as pd
import pytest
from settings import CONVEX, PAPER

import rflaf
from rflaf import RandomActivationFeatures, RFLAFClassifier, RFLAFRegressor
from rflaf.functions import densities, losses

ESTIMATORS = (RFLAFRegressor, RFLAFClassifier, RandomActivationFeatures)
OTHERS = (
    *(rflaf.RandomFeatureModel, rflaf.Activation, rflaf.WidthPlan, rflaf.LeverageSampling, rflaf.GreedySelection),
    *(rflaf.BSplineBasis, rflaf.RBFBasis, *densities._DENSITIES.values()),
    *(losses.Squared, losses.Huber, losses.Pinball, losses.Logistic, losses.SquaredHinge, losses.Softmax),
    losses.Poisson,
)


def documented(cls, section: str) -> set[str]:
    """The names in a section of a numpydoc docstring."""
    text = inspect.getdoc(cls)
    found = re.search(rf"^{section}\n-+\n(.*?)(?=^\w[^\n]*\n-+\n|\Z)", text, re.S | re.M)
    lines = re.findall(r"^(\w[\w, ]*?) : \S", found[1], re.M) if found else []
    return {name for line in lines for name in line.split(", ")}


@pytest.mark.parametrize("cls", [*ESTIMATORS, *OTHERS], ids=lambda cls: cls.__name__)
def test_every_argument_is_documented(cls):
    names = set(inspect.signature(cls).parameters) - {"args", "kwargs"}
    assert names <= documented(cls, "Parameters") | documented(cls, "Attributes")
    if cls in ESTIMATORS:
        assert documented(cls, "Parameters") == names


@pytest.mark.parametrize("cls", ESTIMATORS)
@pytest.mark.parametrize(
    "settings", [{"curves": False, "alpha": 1e-3}, {**PAPER, "sampling": "leverage"}, {**CONVEX, "sampling": "greedy"}]
)
def test_every_fitted_attribute_is_documented(cls, settings, small_pool):
    X = pd.DataFrame(np.random.default_rng(0).standard_normal((60, 2)), columns=["a", "b"])
    y = X["a"] > 0 if cls is RFLAFClassifier else X["a"]
    model = cls(3, random_state=0, **settings).fit(X, y)
    computed = {name for name in dir(cls) if isinstance(getattr(cls, name), property) and hasattr(model, name)}
    fitted = {name for name in {*vars(model), *computed} if name.endswith("_")}
    assert {name for name in fitted if not name.startswith("_")} == documented(cls, "Attributes")
