"""The few classes that a model file may name."""

from __future__ import annotations

from typing import Any

from rflaf.estimators import RandomActivationFeatures, RFLAFClassifier, RFLAFRegressor
from rflaf.estimators.parameters import GreedySelection, LeverageSampling
from rflaf.functions.bases import BSplineBasis, RBFBasis
from rflaf.functions.densities import Cauchy, Gaussian, OrthogonalGaussian, SobolGaussian, StudentT
from rflaf.functions.losses import Huber, Logistic, Pinball, Poisson, Softmax, Squared, SquaredHinge

ESTIMATORS = {kind.__name__: kind for kind in (RFLAFRegressor, RFLAFClassifier, RandomActivationFeatures)}
LOSSES = {kind.__name__: kind for kind in (Squared, Huber, Pinball, Poisson, Logistic, Softmax, SquaredHinge)}
DENSITIES = {kind.__name__: kind for kind in (Gaussian, StudentT, Cauchy, OrthogonalGaussian, SobolGaussian)}
BASES = {kind.__name__: kind for kind in (BSplineBasis, RBFBasis)}
SAMPLINGS = {kind.__name__: kind for kind in (LeverageSampling, GreedySelection)}
PARTS: dict[str, Any] = {**LOSSES, **DENSITIES, **BASES, **SAMPLINGS}  # what may be an argument of an estimator
