"""Time to import the package against importing scikit-learn's linear_model, in fresh interpreters."""

from __future__ import annotations

import subprocess
import sys

from interleaved import medians, report


def importing(module: str) -> None:
    subprocess.run([sys.executable, "-c", f"import {module}"], check=True)


def main() -> None:
    seconds = medians({"ours": lambda: importing("rflaf"), "theirs": lambda: importing("sklearn.linear_model")})
    report("import: rflaf / sklearn.linear_model", seconds["ours"], seconds["theirs"], "limit 1.5")


if __name__ == "__main__":
    main()
