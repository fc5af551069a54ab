"""How large the house is: what CONTRIBUTING.md asks of the source, counted, beside its limits.

python benchmarks/house.py [folder of the package]. Exits with 1 where a limit is missed. A body is the lines of a
function from its first statement after the docstring to its last. Lines of source have no limit, since they grow with
what the package can do; they are told by room, so that a room that grows without reason is seen.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
Function = ast.FunctionDef | ast.AsyncFunctionDef
MOST_ENTRIES, MOST_LAYERS, MOST_LINES, MOST_BODY, MOST_PARAMETERS = 14, 8, 400, 15, 8


def trees(package: Path) -> dict[str, ast.Module]:
    """Every file of the package, parsed, by its path."""
    paths = sorted(package.rglob("*.py"))
    return {path.relative_to(package).as_posix(): ast.parse(path.read_text(encoding="utf-8")) for path in paths}


def lines(package: Path) -> dict[str, int]:
    paths = package.rglob("*.py")
    return {path.relative_to(package).as_posix(): len(path.read_text(encoding="utf-8").splitlines()) for path in paths}


def entries(package: Path) -> list[str]:
    """Modules, folders and files at the top of the package."""
    return sorted(path.name for path in package.iterdir() if path.name != "__pycache__")


def functions(tree: ast.Module) -> Iterator[Function]:
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def body_lines(function: Function) -> int:
    """Lines of a function's body without its docstring."""
    body = function.body[ast.get_docstring(function, clean=False) is not None :]
    return body[-1].end_lineno - body[0].lineno + 1 if body else 0


def n_parameters(function: Function) -> int:
    """Parameters of a function; the object or class that a method belongs to does not count."""
    given = function.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs, *filter(None, (given.vararg, given.kwarg))]
    return sum(parameter.arg not in {"self", "cls"} for parameter in every)


def crowded(package: Path) -> list[str]:
    """Functions of more than 8 parameters; constructors and compiled loops may have more."""
    return [
        f"{path}:{function.lineno} {function.name}, {n_parameters(function)} parameters"
        for path, tree in trees(package).items()
        if "_kernels" not in Path(path).parts
        for function in functions(tree)
        if function.name != "__init__" and not compiled(function) and n_parameters(function) > MOST_PARAMETERS
    ]


def compiled(function: Function) -> bool:
    return any("njit" in ast.unparse(decorator) for decorator in function.decorator_list)


def bodies(package: Path) -> list[int]:
    """Lines of every body, ascending."""
    return sorted(body_lines(function) for tree in trees(package).values() for function in functions(tree))


def rooms(package: Path) -> dict[str, set[str]]:
    """The rooms that each room imports from."""
    found: dict[str, set[str]] = {}
    for path, tree in trees(package).items():
        room = Path(path).parts[0].removesuffix(".py")
        found.setdefault(room, set()).update(imported(tree, Path(path)))
    names = set(found) - {"__init__", "__main__"}
    return {room: (found[room] & names) - {room} for room in names}


def imported(tree: ast.Module, path: Path) -> Iterator[str]:
    """The first name after that of the package in every import of it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[1] for alias in node.names if alias.name.startswith("rflaf."))
        elif isinstance(node, ast.ImportFrom) and node.level == len(path.parts):
            yield from [node.module.split(".")[0]] if node.module else (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and (node.module or "").split(".")[0] == "rflaf":
            _, _, rest = node.module.partition(".")
            yield from [rest.split(".")[0]] if rest else (alias.name for alias in node.names)


def n_layers(package: Path) -> int:
    """The length of the longest chain of rooms that import one another."""
    below = rooms(package)

    @cache
    def height(room: str) -> int:
        return 1 + max((height(other) for other in below[room]), default=0)

    return max(map(height, below))


def percentile(values: Sequence[int], share: float) -> int:
    return values[min(int(share * len(values)), len(values) - 1)]


def by_room(sizes: dict[str, int]) -> dict[str, tuple[int, int]]:
    """Files and lines of every room, the largest first."""
    found: dict[str, tuple[int, int]] = {}
    for path, size in sizes.items():
        n_files, n_lines = found.get(room := Path(path).parts[0], (0, 0))
        found[room] = n_files + 1, n_lines + size
    return dict(sorted(found.items(), key=lambda item: -item[1][1]))


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("package", type=Path, nargs="?", default=ROOT / "src" / "rflaf")
    package = parser.parse_args(argv).package
    sizes, body, many = lines(package), bodies(package), crowded(package)
    longest = max(sizes, key=sizes.__getitem__)
    table = [
        ("entries at the top", len(entries(package)), MOST_ENTRIES),
        ("layers", n_layers(package), MOST_LAYERS),
        (f"largest file ({longest})", sizes[longest], MOST_LINES),
        ("body, median", percentile(body, 0.5), MOST_BODY),
        ("body, 90th percentile", percentile(body, 0.9), MOST_BODY),
        (f"functions above {MOST_PARAMETERS} parameters", len(many), 0),
    ]
    print(f"{'':<56} {'found':>7} {'limit':>7}")
    for what, found, limit in table:
        print(f"{what:<56} {found:>7} {limit:>7}  {'ok' if found <= limit else 'FAIL'}")
    print(*(f"  {function}" for function in many), sep="\n")
    print(f"{'lines of source':<56} {sum(sizes.values()):>7}")
    for room, (n_files, n_lines) in by_room(sizes).items():
        print(f"  {room:<54} {n_lines:>7}  in {n_files} files")
    return int(any(found > limit for _, found, limit in table))


if __name__ == "__main__":
    sys.exit(main())
