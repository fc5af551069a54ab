"""Draw the pictures of docs/looking.md:  python benchmarks/pictures.py

Those of the report are taken in a browser, and left as they are where playwright or Chromium is missing.
"""

import shutil
import tempfile
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import pandas as pd
from PIL import Image
from sklearn.datasets import make_friedman1

from rflaf import RFLAFClassifier, RFLAFRegressor
from rflaf.inspection.plots import (
    ActivationBankDisplay,
    ActivationDisplay,
    CalibrationDisplay,
    ColumnCurveDisplay,
    LeverageDisplay,
    PartialEffectDisplay,
    ResidualDisplay,
    SpectrumDisplay,
    WidthDisplay,
)
from rflaf.inspection.report import write_report

FOLDER = Path(__file__).parent.parent / "docs" / "images"
_N_TRAIN = 4000


def rows():
    """Friedman's first problem: five columns of ten matter, two of them only together."""
    X, y = make_friedman1(n_samples=6000, noise=1.0, random_state=0)
    return pd.DataFrame(X, columns=[f"x{i}" for i in range(1, 11)]), y


def save(display, name):
    display.figure_.savefig(FOLDER / f"{name}.png", dpi=90)
    plt.close(display.figure_)
    shrink(FOLDER / f"{name}.png")


def shrink(path):
    """Few colours are enough for a chart, and a quarter of the bytes."""
    Image.open(path).convert("RGB").quantize(128, dither=Image.Dither.NONE).save(path, optimize=True)


def draw_displays(refined, paper, classifier, X, y):
    save(ActivationDisplay.from_estimator(paper, X), "display-activation")
    save(ActivationBankDisplay.from_estimator(refined, X), "display-bank")
    save(ColumnCurveDisplay.from_estimator(refined, X, "x3"), "display-curves")
    save(PartialEffectDisplay.from_estimator(refined, X, "x3"), "display-effect")
    save(PartialEffectDisplay.from_estimator(refined, X, ("x1", "x2")), "display-pair")
    save(LeverageDisplay.from_estimator(paper), "display-leverage")
    save(SpectrumDisplay.from_estimator(paper, X), "display-spectrum")
    save(WidthDisplay.from_estimator(paper), "display-width")
    save(ResidualDisplay.from_estimator(refined, X, y), "display-residuals")
    save(CalibrationDisplay.from_estimator(classifier, X, y > 14), "display-calibration")


def take_screenshots(path):
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        chromium = None
    if chromium is None:
        print("no playwright or no Chromium: the pictures of the report stay as they are")
        return
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for name, width, height, scheme, anchor in (
            ("report-top", 1180, 900, "light", ""),
            ("report-columns", 1180, 900, "dark", "#columns"),
        ):
            page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
            page.goto(path.as_uri() + anchor)
            page.wait_for_timeout(800)
            page.screenshot(path=FOLDER / f"{name}.png")
            shrink(FOLDER / f"{name}.png")
        browser.close()


def main():
    X, y = rows()
    train, test = slice(_N_TRAIN), slice(_N_TRAIN, None)
    refined = RFLAFRegressor(30, curves=True, random_state=0).fit(X[train], y[train])
    paper = RFLAFRegressor.paper(60, pool_size=1000, random_state=0).fit(X[train], y[train])
    classifier = RFLAFClassifier(30, directions="random", random_state=0).fit(X[train], y[train] > 14)
    draw_displays(refined, paper, classifier, X[test], y[test])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder).resolve() / "report.html"
        write_report(refined, X[test], y[test], path, train=(X[train], y[train]), title="Friedman's first problem")
        take_screenshots(path)


if __name__ == "__main__":
    main()
