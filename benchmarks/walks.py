"""The two walks through the house, measured: how many functions and files a fit and a prediction pass.

    python benchmarks/walks.py

Functions are those of this package that run, seen by ``sys.setprofile``; scikit-learn's and Arrow's are not counted.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import rflaf
from rflaf import RFLAFRegressor

PACKAGE = str(Path(rflaf.__file__).parent)
KERNELS = str(Path(PACKAGE, "functions", "_kernels"))


def calls_of(task: Callable[[], Any]) -> list[tuple[str, str]]:
    """Return file and name of every function of the package that a task calls, in order, in all threads."""
    calls: list[tuple[str, str]] = []

    def note(frame: Any, event: str, argument: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(PACKAGE) and code.co_name != "<module>":
            calls.append((code.co_filename, code.co_qualname))

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        task()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    return calls


def hops_of_predict(model: Any, X: Any) -> list[tuple[str, str]]:
    """Return the functions from ``predict`` on to the compiled loop, without the loop."""
    calls = calls_of(lambda: model.predict(X))
    loop = next(at for at, (file, _) in enumerate(calls) if file.startswith(KERNELS))
    return calls[:loop]


def house_table(path: Path, n_rows: int = 300) -> None:
    """Write a CSV file of houses with numbers, levels, dates and gaps."""
    rng = np.random.default_rng(0)
    area, town = rng.uniform(30, 200, n_rows).round(1), rng.choice(["Rome", "Oslo", "Lima"], n_rows)
    price = (area * (2 + (town == "Oslo")) + rng.standard_normal(n_rows)).round(2)
    with path.open("w") as file:
        file.write("area,town,built,price\n")
        for i in range(n_rows):
            shown = "?" if i % 10 == 0 else area[i]
            file.write(f"{shown},{town[i]},{1950 + i % 60}-03-{1 + i % 28:02d},{price[i]}\n")


def main() -> None:
    """Print the measures of both walks."""
    from rflaf.cli.app import run

    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 3))
    y = np.sin(X[:, 0]) + X[:, 1]
    model = RFLAFRegressor(10, random_state=0)
    fitting = calls_of(lambda: model.fit(X, y))
    model.predict(X)
    hops = hops_of_predict(model, X)
    print(f"hops of predict: {len(hops)}")
    for file, name in hops:
        print(f"  {Path(file).relative_to(PACKAGE)} {name}")
    print(f"functions called by fit(X, y): {len(set(fitting))} in {len({file for file, _ in fitting})} files")
    with tempfile.TemporaryDirectory() as folder:
        table, out = Path(folder, "houses.csv"), str(Path(folder, "houses.rflaf"))
        house_table(table)
        command = ["fit", str(table), "--target", "price", "--out", out, "--width", "10", "--json"]
        run(command)  # imports and compiles
        calls = calls_of(lambda: run(command))
    files = sorted({str(Path(file).relative_to(PACKAGE)) for file, _ in calls})
    print(f"functions called by rflaf fit houses.csv: {len(set(calls))} in {len(files)} files")
    for file in files:
        print(f"  {file}")


if __name__ == "__main__":
    main()
