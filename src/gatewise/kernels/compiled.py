"""How a function becomes machine code here: compiled on its first call and kept on disk (see `code_cache`).

All functions run without the interpreter's lock and divide by the rules of NumPy: x / 0 is infinite and no error. The
decorators differ in what the compiler may do with sums and products.
"""

from collections.abc import Callable
from typing import Any, cast, TypeVar

import numba

from gatewise.kernels.code_cache import has_sources, KernelCache

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F) -> F:
    """Compile ``function`` under IEEE rules: no sum is reordered, no product is fused with a sum.

    The same numbers in the same order therefore give the same bits wherever in an array they stand. The tie rule of
    Top-K gates needs this.
    """
    return _compile(function)


def compiled_fma(function: F) -> F:
    """Compile ``function`` and let the compiler fuse a product with a sum; no sum is reordered."""
    return _compile(function, fastmath={"contract"})


def compiled_reordered(function: F) -> F:
    """Compile ``function`` and let the compiler fuse products and take sums in any order.

    For results whose last bits do not matter.
    """
    return _compile(function, fastmath={"contract", "reassoc"})


def compiled_leaf(function: F) -> F:
    """Compile an inner loop as `compiled_fma` does, to be inlined, without counting references to arrays.

    Each count is an atomic instruction, and a dozen of them take as long as the arithmetic of a tile. In exchange the
    function may index arrays and call other leaves, but it must not make, slice or return an array.
    """
    return _compile(function, fastmath={"contract"}, _nrt=False, forceinline=True)


def compiled_sum(function: F) -> F:
    """Compile a leaf whose sums may be taken in any order, so that they use the processor's vector instructions.

    The order is chosen when the function is compiled, so every call takes the same one.
    """
    return _compile(function, fastmath={"contract", "reassoc"}, _nrt=False, forceinline=True)


def _compile(function: F, **options: Any) -> F:
    dispatcher: Any = numba.njit(nogil=True, error_model="numpy", **options)(function)
    if dispatcher is not function and has_sources(
        function
    ):  # numba returns it unchanged when NUMBA_DISABLE_JIT is set
        dispatcher._cache = KernelCache(function)
    return cast(F, dispatcher)
