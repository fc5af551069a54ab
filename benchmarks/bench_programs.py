"""Programs of a model fitted to a table, in every target whose tools are here: size, time to compile, error.

The rows have numbers, texts, gaps and dates, levels that the fit has not seen and spaces around some. The error is the
largest difference from Python over all rows, in standard deviations of the answers.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from interleaved import options

import rflaf

sys.path.append(str(Path(__file__).parent.parent / "tests" / "export"))
from row_programs import TOOLS, absent, fresh_table, run_program, table


def main(argv: Sequence[str] | None = None) -> None:
    given = options(__doc__, argv, targets=list(TOOLS), rows=10_000, width=30)
    frame, y = table(3000)
    model = rflaf.RFLAFRegressor(given.width, directions="random", random_state=0).fit(frame, y)
    rows = fresh_table(given.rows)
    wanted = model.predict(rows)
    print("| target | KB of source | seconds to compile | largest error, standard deviations |")
    print("| --- | --- | --- | --- |")
    for target in given.targets:
        lacking = absent(target)
        if lacking:
            print(f"| {target} | {lacking} is not here | | |")
            continue
        with tempfile.TemporaryDirectory() as folder:
            run = run_program(target, model, rows, Path(folder))
        error = np.max(np.abs(run.answers[:, 0].astype(float) - wanted)) / wanted.std()
        seconds = f"{run.seconds:.1f}" if run.seconds else ""
        print(f"| {target} | {run.size / 1024:.0f} | {seconds} | {error:.1e} |", flush=True)


if __name__ == "__main__":
    main()
