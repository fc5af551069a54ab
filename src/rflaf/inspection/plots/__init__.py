"""Plots of fitted models as scikit-learn Displays: ``from_estimator`` computes, ``plot`` draws.

Needs the extra ``plots``. Colours are the colour-blind-safe palette of Okabe and Ito. Every plot fits half a page, on
the axes given or on its own figure, and keeps the numbers it shows.
"""

from rflaf.estimators.svg import BLUE, GREEN, GREY, ORANGE, PALETTE, SKY, VERMILION

from .component_plots import ActivationBankDisplay, ActivationDisplay, LeverageDisplay, SpectrumDisplay, WidthDisplay
from .fan import FanDisplay
from .predictions import CalibrationDisplay, ColumnCurveDisplay, PartialEffectDisplay, ResidualDisplay
from .reasons import WaterfallDisplay
from .style import require_matplotlib

__all__ = [
    "BLUE", "GREEN", "GREY", "ORANGE", "PALETTE", "SKY", "VERMILION", "ActivationBankDisplay", "ActivationDisplay",
    "CalibrationDisplay", "ColumnCurveDisplay", "FanDisplay", "LeverageDisplay", "PartialEffectDisplay",
    "ResidualDisplay", "SpectrumDisplay", "WaterfallDisplay", "WidthDisplay", "require_matplotlib",
]  # fmt: skip
