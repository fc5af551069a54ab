"""Imports point one way, third parties stay in their place, and importing the package stays cheap."""

from __future__ import annotations

import ast
import statistics
import subprocess
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from time import perf_counter

import pytest

import rflaf

PACKAGE = Path(rflaf.__file__).parent

# A module may import from the lines above its own, never from its own or from below.
LAYERS = (
    ("errors", "outcomes", "folds", "_vectors"),
    ("tables",),
    ("reading",),
    ("bases", "spectral", "curves", "blocks", "_kernels", "_curve_kernels", "_loss_kernels"),
    ("executors", "normal_equations", "losses", "_refine_kernels"),
    ("scaling", "features", "selection", "encoding", "files", "checkpoint", "progress"),
    ("clusters",),
    ("problem", "risk", "leverage", "last_layer", "convex", "refine"),
    ("bilinear", "recipes", "model"),
    ("specification", "incremental"),
    ("final_fit", "budget", "inputs"),
    ("training", "parameters"),
    ("estimators",),
    ("plots",),
    ("demo",),
    ("cli",),
    ("__main__",),
)
SURFACE = {"plots", "demo", "cli", "__main__"}  # may also import the package itself, for its version

KERNELS = {"_vectors", "_kernels", "_curve_kernels", "_loss_kernels", "_refine_kernels"}
CORE_LIBRARIES = {"numpy", "scipy", "sklearn", "joblib", "numba", "llvmlite", "threadpoolctl"}
OWNERS = {  # a library -> the only modules that may import it
    "numba": KERNELS,
    "llvmlite": KERNELS,
    "threadpoolctl": {"executors"},
    "dask": {"clusters"},
    "distributed": {"clusters"},
    "cloudpickle": {"clusters"},
    "typer": {"cli"},
    "rich": {"cli", "progress"},
    "matplotlib": {"plots", "demo"},
    "pyarrow": {"tables", "reading", "files"},
    "safetensors": {"persistence"},
}

LAYER_OF = {module: number for number, layer in enumerate(LAYERS) for module in layer}
MODULES = sorted(".".join(path.relative_to(PACKAGE).with_suffix("").parts) for path in PACKAGE.rglob("*.py"))


def imports_of(module: str) -> Iterator[tuple[str, bool]]:
    """Every import anywhere in a module, as (name, whether it is of this package); the package itself is ""."""
    tree = ast.parse((PACKAGE / module.replace(".", "/")).with_suffix(".py").read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from_absolute(alias.name)
        elif isinstance(node, ast.ImportFrom) and node.level:
            names = [node.module] if node.module else [alias.name for alias in node.names]
            for name in names:
                head = name.split(".")[0]
                yield (head if is_module(head) else "", True)
        elif isinstance(node, ast.ImportFrom):
            yield from_absolute(node.module)


def from_absolute(name: str) -> tuple[str, bool]:
    head, _, rest = name.partition(".")
    return (rest.split(".")[0], True) if head == "rflaf" else (head, False)


def is_module(name: str) -> bool:
    return (PACKAGE / f"{name}.py").exists() or (PACKAGE / name).is_dir()


def own_imports(module: str) -> set[str]:
    return {name for name, ours in imports_of(module) if ours}


def library_imports(module: str) -> set[str]:
    return {name for name, ours in imports_of(module) if not ours} - set(sys.stdlib_module_names)


each_module = pytest.mark.parametrize("module", [module for module in MODULES if module != "__init__"])


def test_every_module_has_its_place_in_the_table():
    listed = list(chain.from_iterable(LAYERS))
    assert len(listed) == len(set(listed))
    assert set(listed) == set(MODULES) - {"__init__"}


@each_module
def test_imports_point_one_way(module):
    for imported in own_imports(module):
        if imported == "":
            assert module in SURFACE, f"{module} imports the package that imports it"
        else:
            assert LAYER_OF[imported] < LAYER_OF[module], f"{module} must not import {imported}"


def test_the_package_itself_does_not_import_its_surface():
    assert own_imports("__init__").isdisjoint(SURFACE)


@pytest.mark.parametrize("module", MODULES)
def test_libraries_are_imported_where_they_belong(module):
    for library in library_imports(module):
        if library in OWNERS:
            assert module in OWNERS[library], f"{module} must not import {library}"
        else:
            assert library in CORE_LIBRARIES, f"{module} must not import {library}"


@each_module
def test_only_the_kernels_are_private(module):
    assert not module.startswith("_") or module in {*KERNELS, "__main__"}


def test_the_parser_sees_every_kind_of_import(tmp_path, monkeypatch):
    source = (
        "import os, numpy.linalg as la\nfrom . import errors, __version__\nfrom .blocks import Block\n"
        "import rflaf.model\nfrom rflaf.bases import Basis\n\ndef f():\n    from dask import array\n"
    )
    (tmp_path / "sample.py").write_text(source)
    for name in ("errors", "blocks"):
        (tmp_path / f"{name}.py").touch()
    monkeypatch.setattr(sys.modules[__name__], "PACKAGE", tmp_path)
    assert own_imports("sample") == {"errors", "", "blocks", "model", "bases"}
    assert library_imports("sample") == {"numpy", "dask"}


def test_optional_libraries_are_not_loaded_with_the_package():
    optional = ("matplotlib", "typer", "rich", "dask", "distributed", "onnx")  # pandas comes with scikit-learn
    code = f"import rflaf, sys; sys.exit(str([name for name in {optional} if name in sys.modules] or ''))"
    answer = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert answer.stderr.strip() == ""


def seconds_to_import(name: str) -> float:
    started = perf_counter()
    subprocess.run([sys.executable, "-c", f"import {name}"], check=True)
    return perf_counter() - started


def import_ratio(n_runs: int = 5) -> float:
    """Median time to import this package over that of scikit-learn's linear models, measured in turn."""
    pairs = [(seconds_to_import("rflaf"), seconds_to_import("sklearn.linear_model")) for _ in range(n_runs)]
    ours, theirs = (statistics.median(times) for times in zip(*pairs, strict=True))
    return ours / theirs


def test_importing_the_package_is_cheap():
    ratios = []
    while len(ratios) < 3 and min(ratios, default=2.0) >= 1.5:  # timing is noisy: the best of three counts
        ratios.append(import_ratio())
    assert min(ratios) < 1.5
