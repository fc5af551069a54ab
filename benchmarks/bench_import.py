"""Time to import the package against importing scikit-learn's linear_model, in fresh interpreters."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from functools import partial

from interleaved import medians, options, report


def importing(module: str) -> None:
    subprocess.run([sys.executable, "-c", f"import {module}"], check=True)


def main(argv: Sequence[str] | None = None) -> None:
    given = options(__doc__, argv, rounds=5)
    runs = {"ours": partial(importing, "rflaf"), "theirs": partial(importing, "sklearn.linear_model")}
    seconds = medians(runs, given.rounds)
    report("import: rflaf / sklearn.linear_model", seconds["ours"], seconds["theirs"], "limit 1.5")


if __name__ == "__main__":
    main()
