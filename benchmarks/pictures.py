"""Draw the pictures of docs/looking.md:  python benchmarks/pictures.py [--folder docs/images]

Those of the report are taken in a browser, and left as they are where playwright or Chromium is missing.
"""

import argparse
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
    FanDisplay,
    LeverageDisplay,
    PartialEffectDisplay,
    ResidualDisplay,
    SpectrumDisplay,
    WidthDisplay,
)
from rflaf.inspection.report import write_report

FOLDER = Path(__file__).parent.parent / "docs" / "images"


def rows(n_rows):
    """Friedman's first problem: five columns of ten matter, two of them only together."""
    X, y = make_friedman1(n_samples=n_rows, noise=1.0, random_state=0)
    return pd.DataFrame(X, columns=[f"x{i}" for i in range(1, 11)]), y


def save(display, path):
    display.figure_.savefig(path, dpi=90)
    plt.close(display.figure_)
    shrink(path)
    print(path)


def shrink(path):
    """Few colours are enough for a chart, and a quarter of the bytes."""
    Image.open(path).convert("RGB").quantize(128, dither=Image.Dither.NONE).save(path, optimize=True)


def displays(refined, paper, classifier, fan, X, y):
    """Every picture of a model, by its name."""
    return {
        "activation": ActivationDisplay.from_estimator(paper, X),
        "bank": ActivationBankDisplay.from_estimator(refined, X),
        "curves": ColumnCurveDisplay.from_estimator(refined, X, "x3"),
        "effect": PartialEffectDisplay.from_estimator(refined, X, "x3"),
        "pair": PartialEffectDisplay.from_estimator(refined, X, ("x1", "x2")),
        "leverage": LeverageDisplay.from_estimator(paper),
        "spectrum": SpectrumDisplay.from_estimator(paper, X),
        "width": WidthDisplay.from_estimator(paper),
        "residuals": ResidualDisplay.from_estimator(refined, X, y),
        "fan": FanDisplay.from_estimator(fan, X, y),
        "calibration": CalibrationDisplay.from_estimator(classifier, X, y > 14),
    }


def take_screenshots(path, folder):
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
            page.screenshot(path=folder / f"{name}.png")
            shrink(folder / f"{name}.png")
        browser.close()


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--rows", type=int, default=6000)
    parser.add_argument("--width", type=int, default=30)
    given = parser.parse_args(argv)
    X, y = rows(given.rows)
    n_train = 2 * given.rows // 3
    train, test = slice(n_train), slice(n_train, None)
    refined = RFLAFRegressor(given.width, curves=True, random_state=0).fit(X[train], y[train])
    paper = RFLAFRegressor.paper(2 * given.width, pool_size=given.rows // 6, random_state=0).fit(X[train], y[train])
    classifier = RFLAFClassifier(given.width, directions="random", random_state=0).fit(X[train], y[train] > 14)
    quantiles = {"loss": "quantile", "quantile": [0.05, 0.25, 0.5, 0.75, 0.95]}
    fan = RFLAFRegressor(given.width, random_state=0, **quantiles).fit(X[train], y[train])
    for name, display in displays(refined, paper, classifier, fan, X[test], y[test]).items():
        save(display, given.folder / f"display-{name}.png")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder).resolve() / "report.html"
        write_report(refined, X[test], y[test], path, train=(X[train], y[train]), title="Friedman's first problem")
        take_screenshots(path, given.folder)


if __name__ == "__main__":
    main()
