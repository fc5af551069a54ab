"""Matrix products by BLAS as in NumPy, without its checks of shapes, which take long to compile."""

from __future__ import annotations

from typing import Any

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.linalg import call_xxgemm, call_xxgemv

from .loops import part


@intrinsic
def _multiply(typing: Any, a: Any, b: Any, out: Any) -> Any:
    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        arrays = [context.make_array(kind)(context, builder, value) for kind, value in zip(sig.args, args, strict=True)]
        left, right, result = (
            (kind, cgutils.unpack_tuple(builder, array.shape), array.data)
            for kind, array in zip(sig.args, arrays, strict=True)
        )
        one = context.get_constant(types.intp, 1)
        with builder.if_else(builder.icmp_signed("==", right[1][1], one)) as (to_vector, others):
            with to_vector:
                call_xxgemv(context, builder, sig.args[0].layout == "C", *left, right[2], result[2])
            with others, builder.if_else(builder.icmp_signed("==", left[1][0], one)) as (from_vector, general):
                with from_vector:
                    call_xxgemv(context, builder, sig.args[1].layout != "C", *right, left[2], result[2])
                with general:
                    call_xxgemm(context, builder, *left, *right, *result)
        return context.get_dummy_value()

    return types.void(a, b, out), generate


@part
def multiply(a: Any, b: Any, out: Any) -> None:
    """``out = a b``: (m, k), (k, n), (m, n), none of them empty; ``a`` and ``b`` in the order of C or of Fortran."""
    _multiply(a, b, out)
