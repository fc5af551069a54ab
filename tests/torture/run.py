"""Ten thousand hostile cases, half of them tables, sharded and resumable: ``make torture``, or

    python tests/torture/run.py --kind tables --cases 5000 --shard 1/2 --records torture-tables.jsonl

Every case is one line of the records, written before and after it runs: a case that kills the process, or takes more
than --seconds of the processor, is named by the next call, which goes on behind it. Exit code 1 if the contract was
ever broken.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import random
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from cases import cases, check
from hypothesis import HealthCheck, Phase, given, seed, settings
from mixed_tables import check_table, table_cases

KINDS = {"arrays": (cases, check), "tables": (table_cases, check_table)}


def run_case(number: int, kind: str = "arrays") -> str:
    """Draw and run one case; a broken contract is returned with its case."""
    strategy, check_drawn = KINDS[kind]
    drawn: list[Any] = []

    @seed(number)
    @settings(
        max_examples=3, deadline=None, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
    )
    @given(strategy())
    def one(case: Any) -> None:
        drawn.append(case)

    one()
    case = drawn[-1]  # the first is always the simplest
    try:
        return check_drawn(case)
    except BaseException as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        return f"BROKEN {type(error).__name__}: {error} ({where.filename}:{where.lineno}) in {case!r}"


@contextmanager
def ended_after(seconds: float) -> Iterator[None]:
    """End the process, with the place of every thread, after so much processor time, or thirty times that of waiting.

    The processor's time, because a machine that is busy with other work would make any case look like one that hangs.
    """
    if sys.platform != "win32":
        faulthandler.register(signal.SIGPROF, chain=True)
        signal.setitimer(signal.ITIMER_PROF, seconds)
    faulthandler.dump_traceback_later(30 * seconds, exit=True)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        if sys.platform != "win32":
            signal.setitimer(signal.ITIMER_PROF, 0.0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--kind", choices=KINDS, default="arrays", help="of the cases; each has its own records")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--shard", default="1/1")
    parser.add_argument("--records", type=Path, default=Path("torture.jsonl"))
    parser.add_argument("--seconds", type=float, default=60.0, help="of the processor for one case, until it hangs")
    parser.add_argument("--minutes", type=float, default=float("inf"))
    given_arguments = parser.parse_args()
    shard, n_shards = map(int, given_arguments.shard.split("/"))
    first = given_arguments.first
    records: dict[int, str] = {}
    if given_arguments.records.exists():
        for line in given_arguments.records.read_text().splitlines():
            record = json.loads(line)
            records[record["case"]] = record.get("outcome", "BROKEN the process ended or hung")
    numbers = [n for n in range(first, first + given_arguments.cases) if n % n_shards == shard - 1 and n not in records]
    random.Random(0).shuffle(numbers)
    end = time.monotonic() + 60 * given_arguments.minutes
    with given_arguments.records.open("a") as file:
        for number in numbers:
            if time.monotonic() > end:
                break
            file.write(json.dumps({"case": number}) + "\n")
            file.flush()
            began = time.process_time()
            with ended_after(given_arguments.seconds):
                records[number] = run_case(number, given_arguments.kind)
            taken = round(time.process_time() - began, 3)
            file.write(json.dumps({"case": number, "outcome": records[number], "seconds": taken}) + "\n")
            file.flush()
    tally = Counter(outcome.split(" ")[0].rstrip(":") for outcome in records.values())
    sys.stdout.write(f"{len(records)} cases: {dict(tally)}\n")
    broken = {n: outcome for n, outcome in records.items() if outcome.startswith("BROKEN")}
    for number, outcome in sorted(broken.items()):
        sys.stdout.write(f"case {number}: {outcome[:600]}\n")
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main())
