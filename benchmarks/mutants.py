"""Mutants of the numerical core: ``python benchmarks/mutants.py --records mutants.jsonl``; all of them take hours.

One operator, comparison, number, minimum or maximum of a file is changed at a time, in a copy of the package, and the
tests of that file are run until one fails. A mutant that no test kills is printed with its line; REASONS states why
some may live. Every mutant is a line of the records, so that a stopped run goes on. ``--most 30`` takes a random part.
"""

from __future__ import annotations

import argparse
import ast
import copy
import json
import math
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import hypothesis.extra.numpy  # noqa: F401  modules that the tests load, once for all mutants
import numba  # noqa: F401
import pandas  # noqa: F401
import pytest
import scipy.optimize
import scipy.stats  # noqa: F401
import sklearn.linear_model
import sklearn.model_selection  # noqa: F401

ROOT = Path(__file__).resolve().parent.parent
MODEL, LIMITS, LEVELS = (
    "tests/model/test_",
    "tests/estimators/test_limits.py::test_",
    "tests/rows/test_newcomers.py::test_",
)
TESTS = {
    "functions/losses/labels_and_counts.py": ["tests/functions/test_loss_digits.py", "tests/functions/test_losses.py",
                                              "tests/functions/test_more_losses.py"],
    "functions/losses/residual.py": ["tests/functions/test_loss_digits.py", "tests/functions/test_losses.py",
                                     "tests/functions/test_more_losses.py"],
    "functions/bases.py": ["tests/functions/test_bases.py", "tests/functions/test_smooth_bases.py"],
    "functions/curves.py": ["tests/functions/test_curves.py"],
    "model/normal_equations.py": [f"{MODEL}honest_digits.py", f"{MODEL}normal_equations.py", f"{MODEL}last_layer.py"],
    "model/ridge.py": [f"{MODEL}honest_digits.py", f"{MODEL}normal_equations.py", f"{MODEL}last_layer.py"],
    "model/last_layer.py": [f"{MODEL}last_layer_noise.py", f"{MODEL}last_layer.py"],
    "model/intervals.py": [f"{MODEL}radii.py"],
    "estimators/intervals.py": ["tests/estimators/test_coverages.py"],
    "rows/moments.py": ["tests/rows/test_moments.py"],
    "rows/weights.py": ["tests/rows/test_weights_by_hand.py", "tests/rows/test_weights.py"],
    "rows/folds.py": ["tests/rows/test_folds.py"],
    "rows/tables/moments.py": ["tests/rows/test_column_moments.py"],
    "rows/tables/statistics.py": ["tests/rows/test_level_statistics.py",
                                  f"{LEVELS}a_statistic_is_cross_fitted_and_shrunken_as_the_formula_says",
                                  f"{LEVELS}a_level_that_has_all_the_weight_tells_nothing_of_the_others",
                                  f"{LEVELS}many_levels_are_learned_and_nothing_leaks",
                                  "tests/torture/test_regressions.py::"
                                  "test_the_unit_of_weights_has_no_effect_on_statistics_of_levels"],
    "training/blend.py": ["tests/training/test_blend_parts.py", "tests/training/test_blend.py"],
    "training/calibration.py": ["tests/training/test_calibration.py"],
    "training/signed_lines.py": ["tests/training/test_signed_lines.py",
                                 f"{LIMITS}signed_lines_are_bounded_least_squares",
                                 f"{LIMITS}the_ridge_of_signed_lines_has_the_lowest_error_of_rows_left_out",
                                 f"{LIMITS}one_row_that_weighs_something_is_answered_by_its_target",
                                 f"{LIMITS}very_few_rows_keep_the_directions_under_every_loss",
                                 f"{LIMITS}rows_that_fall_where_the_model_must_rise_are_answered_by_a_constant"],
    "training/temperature.py": ["tests/training/test_temperature.py"],
    "training/solvers/refined/relevance.py": ["tests/training/test_relevance.py"],
    "training/solvers/leverage.py": ["tests/training/test_leverage_by_hand.py", "tests/training/test_leverage.py"],
}  # fmt: skip
REASONS = {  # part of a line -> why a mutant of it may live
    "_JITTERS =": "another size of a jitter is as good",
    "_RIDGES_PER_DECADE": "a finer or coarser grid of ridges is as good",
    "_LEAST_RIDGE, _LARGEST_RIDGE": "likewise",
    "_REFINEMENTS, _REFINED": "one step more or less of a refinement that ends by its residual",
    "_PIVOT_FLOOR": "the floor is a choice within decades",
    "_EIGENVALUE_FLOOR": "likewise",
    "_AS_GOOD": "likewise",
    "_CLEARLY = ": "likewise",
    "_RIDGES = ": "another end of the grid is as good",
    "_MOST_DEGREES": "likewise",
    "_POWER_": "steps and tolerance of a power iteration",
    "moments.shape[0]": "the matrix is square",
    "kernels.HUBER": "a parameter that the compiled loop does not read",
    "kernels.LOGISTIC": "likewise",
    "kernels.SQUARED_HINGE": "likewise",
    "kernels.SOFTMAX": "likewise",
    "kernels.POISSON": "likewise",
    "kernels.TWEEDIE": "likewise",
    "_STEP = ": "another constant mixes bits as well",
    "_ROUNDS = ": "likewise",
    ">> np.uint64(33)": "other bits of the hash are as good",
    "radii = (np.stack([side.at(level)": "the last axis of two is the second",
    "np.searchsorted(share, wanted), n_rows - 1": "the last share is that of all rows: rounding alone goes beyond",
    "np.union1d(ranks, np.arange(max(1,": "the least rank is among the thinned ones",
    "np.float64).reshape(len(Z), -1)": "any negative number is the length left",
    "SPREAD_MEMORY =": "another size of memory is as good",
    "default_rng(0)": "another seed is as good",
    "max(self.n_used, 1)": "of a single row the statistic is its target in any unit",
    "floats hold every sum": "the sum by slices is as exact",
    "bits + _TILE + 1": "a slice of a bit less is as exact",
    "bits = at - 53": "likewise",
    "for side in (1, -1)": "a side is told by its sign",
    "overwrite_a": "in place or not: the same numbers",
    "overwrite_b": "likewise",
    "_FIRST_POWERS = ": "other rates to begin with are as good",
    "<< np.uint64(1)": "other bits of the hash are as good",
    "np.where(size > 0, size, 1.0)": "a target that never moves is zero in any unit",
    "abs(size - before)": "a power iteration that goes on is as exact",
    "left if left > 0 else 0.0": "where nothing is left, what it multiplies is zero",
    "finfo(float).tiny": "guards a division by zero",
    "finfo(float).eps": "a rounding bound within a factor of two",
}
SWAPS = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult}
COMPARES = {ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq}
NAMES = {"max": "min", "min": "max", "maximum": "minimum", "minimum": "maximum", "argmin": "argmax", "argmax": "argmin"}


def changes(node: ast.AST) -> Iterator[ast.AST]:
    """Return changed copies of one node."""
    if isinstance(node, ast.BinOp) and type(node.op) in SWAPS and not isinstance(node.left, ast.JoinedStr):
        changed = copy.copy(node)
        changed.op = SWAPS[type(node.op)]()
        yield changed
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in COMPARES:
        changed = copy.copy(node)
        changed.ops = [COMPARES[type(node.ops[0])]()]
        yield changed
    if isinstance(node, ast.BoolOp):
        changed = copy.copy(node)
        changed.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield changed
    if isinstance(node, ast.UnaryOp):
        yield node.operand
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        yield ast.copy_location(ast.Constant(node.value + 1), node)
    if isinstance(node, ast.Name) and node.id in NAMES:
        yield ast.copy_location(ast.Name(NAMES[node.id], node.ctx), node)
    if isinstance(node, ast.Attribute) and node.attr in NAMES:
        changed = copy.copy(node)
        changed.attr = NAMES[node.attr]
        yield changed


def mutants(source: str) -> list[tuple[int, str]]:
    """Return line and source of every mutant; annotations and docstrings stay."""
    tree = ast.parse(source)
    found = []
    for parent in ast.walk(tree):
        for field, value in ast.iter_fields(parent):
            if field in ("annotation", "returns", "decorator_list"):
                continue
            places = enumerate(value) if isinstance(value, list) else [(None, value)]
            for index, node in places:
                if not isinstance(node, ast.AST):
                    continue
                for changed in changes(node):
                    ast.copy_location(changed, node)
                    put(parent, field, index, changed)
                    found.append((getattr(node, "lineno", 0), ast.unparse(ast.fix_missing_locations(tree))))
                    put(parent, field, index, node)
    return found


def put(parent: ast.AST, field: str, index: int | None, node: ast.AST) -> None:
    if index is None:
        setattr(parent, field, node)
    else:
        getattr(parent, field)[index] = node


def survives(place: Path, text: str, tests: list[str], folder: Path, seconds: float) -> tuple[bool, float]:
    """Run tests in a process that has the modules of others loaded already; return whether all pass, and their time.

    The time is that of the processor, so that a busy machine kills no mutant; one that waits has a hundred times it.
    """
    place.write_text(text)
    pid = os.fork()
    if not pid:
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(seconds), math.ceil(seconds) + 1))
        sys.path.insert(0, str(folder))
        os.environ["PYTHONPATH"] = str(folder)
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), 1)
            os.dup2(nowhere.fileno(), 2)
            os._exit(
                int(pytest.main(["-x", "-q", "--assert=plain", "-p", "no:cacheprovider", "-m", "not slow", *tests]))
            )
    end = time.monotonic() + 100 * seconds
    while not (ended := os.wait4(pid, os.WNOHANG))[0]:
        if time.monotonic() > end:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return False, seconds
        time.sleep(0.02)
    return os.waitstatus_to_exitcode(ended[1]) == 0, ended[2].ru_utime + ended[2].ru_stime


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", default=list(TESTS))
    parser.add_argument("--most", type=int, default=10**6, help="of the mutants of a file, drawn at random")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="of a file")
    parser.add_argument(
        "--seconds", type=float, default=120.0, help="of the processor at most, until a mutant is killed"
    )
    parser.add_argument("--records", type=Path, default=Path("mutants.jsonl"))
    given = parser.parse_args()
    os.chdir(ROOT)
    sys.dont_write_bytecode = True
    known = {}
    if given.records.exists():
        records = map(json.loads, given.records.read_text().splitlines())
        known = {(record["file"], record["number"]): record for record in records}
    folder = Path(tempfile.gettempdir()) / "rflaf-mutants" / "src"  # kept, with the loops that were compiled in it
    shutil.copytree(ROOT / "src", folder, dirs_exist_ok=True)
    with given.records.open("a") as log:
        for file in given.files:
            place, end = folder / "rflaf" / file, time.monotonic() + 60 * given.minutes
            source = place.read_text()
            lines, every = source.splitlines(), mutants(source)
            seconds, order = given.seconds, random.Random(0).sample(range(len(every)), len(every))[: given.most]
            if all((file, number) in known for number in order):
                end = 0.0
            else:
                passes, usual = survives(place, source, TESTS[file], folder, seconds)
                if not passes:
                    print(f"{file}: the tests fail without any mutant")
                    return 2
                seconds = min(seconds, 5 + 4 * usual)
            for number in order:
                if time.monotonic() > end:
                    break
                if (file, number) not in known:
                    line, text = every[number]
                    lives, _ = survives(place, text, TESTS[file], folder, seconds)
                    record = {"file": file, "number": number, "line": lines[line - 1].strip(), "lives": lives}
                    known[file, number] = record
                    log.write(json.dumps(record) + "\n")
                    log.flush()
            place.write_text(source)
            tried = [record for (of, _), record in known.items() if of == file]
            living = [record for record in tried if record["lives"]]
            excused = [r for r in living if any(part in r["line"] for part in REASONS)]
            killed = len(tried) - len(living)
            print(f"{file}: {killed} of {len(tried)} tried killed ({len(every)} in all), {len(excused)} excused")
            for record in living:
                why = next((why for part, why in REASONS.items() if part in record["line"]), "NO REASON")
                print(f"  lives: {record['line'][:100]}   [{why}]")
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
