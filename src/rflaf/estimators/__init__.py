"""Scikit-learn estimators: arguments and data are checked here, then handed to `rflaf.training`. No numerics."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .classifier import RFLAFClassifier
    from .regressor import RFLAFRegressor
    from .transformer import RandomActivationFeatures

__all__ = ["RFLAFClassifier", "RFLAFRegressor", "RandomActivationFeatures"]

_PLACES = {
    "RFLAFClassifier": "classifier", "RFLAFRegressor": "regressor", "RandomActivationFeatures": "transformer",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import an estimator, and scikit-learn with it, on first use."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    kind = getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
    globals()[name] = kind
    return kind
