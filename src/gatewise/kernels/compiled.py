"""How a function becomes machine code here: compiled on first call, kept on disk."""

from collections.abc import Callable
from typing import Any, cast, TypeVar

from numba import njit

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F) -> F:
    """Compile ``function`` on its first call, under IEEE rules, without the interpreter's lock.

    No reordering and no fused multiply-add: the same numbers in the same order give the same bits
    wherever in an array they stand, which the tie rule of Top-K gates rests on.
    """
    return cast(F, njit(cache=True, nogil=True, error_model="numpy")(function))


def compiled_fma(function: F) -> F:
    """Compile ``function`` as `compiled` does, and let it fuse a product with a sum."""
    return cast(F, njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})(function))


def compiled_leaf(function: F) -> F:
    """Compile an inner loop as `compiled_fma` does, without counting references to arrays.

    A count is an atomic instruction, and a dozen of them cost as much as a tile of arithmetic. The function may index
    arrays, and call other leaves, but not make, slice or return one.
    """
    options: dict[str, Any] = {"_nrt": False, "forceinline": True, "fastmath": {"contract"}}
    return cast(F, njit(cache=True, nogil=True, error_model="numpy", **options)(function))


def compiled_sum(function: F) -> F:
    """Compile a leaf whose sums may be taken in any order, so that they vectorise.

    The order is settled when the function is compiled: every call takes the same.
    """
    options: dict[str, Any] = {"_nrt": False, "forceinline": True, "fastmath": {"contract", "reassoc"}}
    return cast(F, njit(cache=True, nogil=True, error_model="numpy", **options)(function))


def compiled_reordered(function: F) -> F:
    """Compile ``function`` as `compiled` does, and let it sum in any order, where last bits do not matter."""
    return cast(F, njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc"})(function))
