"""Random feature models with learnable activation functions: small, fast, non-linear models for tables.

>>> from rflaf import RFLAFRegressor
>>> RFLAFRegressor(n_components=30)
RFLAFRegressor(n_components=30)
"""

from .errors import InvalidParameterError, MemoryBudgetError
from .estimators import RandomActivationFeatures, RFLAFClassifier, RFLAFRegressor
from .export import to_c, to_onnx
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
    "to_c",
    "to_onnx",
]
