"""Random feature models with learnable activation functions: small, fast, non-linear models for tables.

>>> from rflaf import RFLAFRegressor
>>> RFLAFRegressor(n_components=30)
RFLAFRegressor(n_components=30)
"""

from . import datasets
from .errors import InvalidParameterError, MemoryBudgetError
from .estimators import RandomActivationFeatures, RFLAFClassifier, RFLAFRegressor
from .model import Activation, RandomFeatureModel

__version__ = "0.1.0"

__all__ = [
    "Activation",
    "InvalidParameterError",
    "MemoryBudgetError",
    "RFLAFClassifier",
    "RFLAFRegressor",
    "RandomActivationFeatures",
    "RandomFeatureModel",
    "__version__",
    "datasets",
]
