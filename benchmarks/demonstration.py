"""The records and the picture of `rflaf demo`:  python benchmarks/demonstration.py [--out FILE] [--picture FILE].

The same models on the same rows as the command; the sentence about them on the pages is written from these records.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from pictures import shrink
from threadpoolctl import threadpool_limits

from rflaf.cli import demo

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "docs" / "results" / "demo.json"
PICTURE = ROOT / "docs" / "images" / "demo.png"


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--picture", type=Path, default=PICTURE)
    parser.add_argument("--rows", type=int, default=demo.ROWS)
    given = parser.parse_args(argv)
    problem = demo.friedman(given.rows)
    demo.compile_loops()
    with threadpool_limits(1):
        outcomes = list(demo.run(problem))
    errors = {one.name: round(one.error, 4) for one in outcomes}
    found = {"rows": len(problem.y_train), "noise": round(demo.least_error(problem), 4), "errors": errors}
    given.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    demo.draw(outcomes, problem, given.picture)
    shrink(given.picture)
    print("\n".join(f"{name}: {error:.4f}" for name, error in errors.items()))


if __name__ == "__main__":
    main()
