"""Pictures of what was learned, as scikit-learn Displays: ``from_estimator`` computes, ``plot`` draws.

Needs the extra ``plots``. Colours are the colour-blind-safe ones of Okabe and Ito. Every picture is drawn for half a
page, on the axes given or on a figure of its own, and keeps the numbers it shows.
"""

from .activations import ActivationBankDisplay, ActivationDisplay
from .columns import ColumnCurveDisplay, PartialEffectDisplay
from .components import LeverageDisplay, SpectrumDisplay, WidthDisplay
from .predictions import CalibrationDisplay, ResidualDisplay
from .style import BLUE, GREEN, GREY, ORANGE, PALETTE, SKY, VERMILION, require_matplotlib

__all__ = [
    "BLUE",
    "GREEN",
    "GREY",
    "ORANGE",
    "PALETTE",
    "SKY",
    "VERMILION",
    "ActivationBankDisplay",
    "ActivationDisplay",
    "CalibrationDisplay",
    "ColumnCurveDisplay",
    "LeverageDisplay",
    "PartialEffectDisplay",
    "ResidualDisplay",
    "SpectrumDisplay",
    "WidthDisplay",
    "require_matplotlib",
]
