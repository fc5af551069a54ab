"""Random feature models with learnable activation functions: small, fast, non-linear models for tables.

>>> from rflaf import RFLAFRegressor
>>> RFLAFRegressor(n_components=30)
RFLAFRegressor(n_components=30)
"""

from . import datasets, theory
from .errors import InvalidParameterError, MemoryBudgetError, UnreadableModelFile
from .estimators import RandomActivationFeatures, RFLAFClassifier, RFLAFRegressor
from .export import to_c, to_onnx
from .model import Activation, RandomFeatureModel
from .persistence import load, save
from .planning import WidthPlan, plan

__version__ = "0.1.0"

__all__ = [
    "Activation",
    "InvalidParameterError",
    "MemoryBudgetError",
    "RFLAFClassifier",
    "RFLAFRegressor",
    "RandomActivationFeatures",
    "RandomFeatureModel",
    "UnreadableModelFile",
    "WidthPlan",
    "__version__",
    "datasets",
    "load",
    "plan",
    "save",
    "theory",
    "to_c",
    "to_onnx",
]
