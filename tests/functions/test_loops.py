"""Loops and their parts: what numba is asked to compile, and products of matrices within them."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from numba import types
from numba.core.errors import TypingError

from rflaf.functions._kernels.loops import alone, jit, owning, part
from rflaf.functions._kernels.products import multiply


@part
def _twice(x):
    return x + x


@jit
def _four_times(x, out):
    for i in range(x.size):
        out[i] = _twice(_twice(x[i]))


def test_a_loop_calls_its_parts_and_python_calls_a_part_on_its_own():
    out = np.empty(3)
    _four_times(np.arange(3.0), out)
    np.testing.assert_array_equal(out, [0, 4, 8])
    assert alone(_twice)(2.5) == 5
    assert alone(_twice) is alone(_twice)


def test_no_machine_code_is_made_of_a_part():
    _twice.compile((types.int64,))
    compiled = _twice.overloads[(types.int64,)]
    engine = compiled.library.codegen._engine
    assert not engine.is_symbol_defined(compiled.fndesc.llvm_func_name)


def test_only_owning_loops_allocate():
    assert owning(jit)(lambda n: np.zeros(n).sum())(3) == 0
    with pytest.raises(Exception, match="NRT"):
        jit(lambda n: np.ones(n).sum())(3)


@pytest.mark.parametrize("enabled", [True, False])
def test_the_garbage_collector_is_left_as_it_was(enabled):
    def fails(x):
        return x.no_such_attribute

    before = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        assert alone(part(lambda x: x))(1) == 1
        assert gc.isenabled() is enabled
        with pytest.raises(TypingError):
            jit(fails)(1.0)
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if before else gc.disable)()


@pytest.mark.parametrize(("m", "k", "n"), [(3, 4, 5), (1, 4, 5), (3, 4, 1), (3, 1, 5), (1, 4, 1), (1, 1, 1)])
@pytest.mark.parametrize("orders", ["CC", "FC", "CF"])
def test_products_are_those_of_numpy(m, k, n, orders):
    rng = np.random.default_rng(m + 10 * k + 100 * n)
    a, b = rng.integers(-9, 9, (m, k)).astype(np.float32), rng.integers(-9, 9, (k, n)).astype(np.float32)
    out = np.full((m, n), np.nan, np.float32)
    left = np.ascontiguousarray(a.T).T if orders[0] == "F" else a
    right = np.ascontiguousarray(b.T).T if orders[1] == "F" else b
    alone(multiply)(left, right, out)
    np.testing.assert_array_equal(out, a @ b)  # whole numbers: exact
