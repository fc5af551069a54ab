"""What numba makes of a function: a loop that Python calls, or a part of such loops.

A loop is compiled on first use and kept on disk. A part is called by loops only. numba would wrap it for Python,
optimise it and turn it into machine code on its own, and all of that once more within everything that calls it; a part
is translated once and optimised where it is used.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import cache, partial
from typing import Any

from numba import njit
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler

from .cache import LoopCache, NoCache, NoFolder

_OPTIONS: dict[str, Any] = {
    "nogil": True, "error_model": "numpy", "boundscheck": False, "no_cfunc_wrapper": True, "_nrt": False,
}  # fmt: skip
_FAST = {"contract", "nsz", "arcp", "reassoc"}  # for what has no rounding trick


def jit(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Compile a loop on first use; cache it on disk if some directory is writable, or holds the loop already."""
    loop = njit(**{**_OPTIONS, **options}, pipeline_class=_LoopCompiler)(function)
    try:
        loop._cache = LoopCache(function)
    except RuntimeError:  # there is no directory for it
        loop._cache = NoFolder(function)
    return loop


class _LinkedOnly(JITCodeLibrary):
    """Code for other libraries to link."""

    def _optimize_final_module(self) -> None:
        """Leave it to the loops that link it."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


class _LoopCompiler(Compiler):
    """numba's, without the collector of garbage, which would search all that numba holds again and again."""

    def compile_extra(self, func: Any) -> Any:
        enabled = gc.isenabled()
        gc.disable()
        try:
            return super().compile_extra(func)
        finally:
            if enabled:
                gc.enable()


class _PartCompiler(_LoopCompiler):
    def compile_extra(self, func: Any) -> Any:
        self.state.library = _LinkedOnly(self.state.targetctx.codegen(), func.__qualname__)
        self.state.library.enable_object_caching()
        self.state.targetctx.get_executable = _no_executable
        return super().compile_extra(func)


def _no_executable(library: Any, function: Any, environment: Any) -> Callable[..., Any]:
    own: list[Any] = []
    return own.pop  # numba registers some built-in function, another one for every part; nobody calls it


def part(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Compile what only loops call."""
    made = njit(**{**_OPTIONS, **options}, no_cpython_wrapper=True, pipeline_class=_PartCompiler)(function)
    made._cache = NoCache(function)
    return made


fast_jit, fast_part = partial(jit, fastmath=_FAST), partial(part, fastmath=_FAST)


def owning(compiled: Callable[..., Any]) -> Callable[..., Any]:
    """Let a loop allocate arrays; to count who owns one takes long to compile."""
    return partial(compiled, _nrt=True)


@cache
def alone(part: Any) -> Callable[..., Any]:
    """Return a part as a loop of its own, which Python calls."""
    options = part.targetoptions
    return jit(part.py_func, **{name: options[name] for name in ("_nrt", "fastmath") if name in options})
