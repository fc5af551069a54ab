"""Scikit-learn estimators: arguments and data are checked here, then handed to `rflaf.training`. No numerics."""

from .classifier import RFLAFClassifier
from .regressor import RFLAFRegressor
from .transformer import RandomActivationFeatures

__all__ = ["RFLAFClassifier", "RFLAFRegressor", "RandomActivationFeatures"]
