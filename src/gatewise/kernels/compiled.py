"""How a function becomes machine code here: compiled on its first call and kept on disk (see `code_cache`).

All functions run without the interpreter's lock and divide by the rules of NumPy: x / 0 is infinite and no error. The
decorators differ in what the compiler may do with sums and products, and in who may call the function: those that
begin with ``compiled`` are for functions that Python calls, and the others, which take a fraction of the time to
compile, for functions that only compiled functions call (see `inner_code`).
"""

import gc
from collections.abc import Callable
from typing import Any, cast, TypeVar

import numba
from numba import types

from gatewise.kernels.code_cache import has_sources, KernelCache
from gatewise.kernels.inner_code import close_to_python, INNER, OPTIMISED

_unliteral: Any = types.unliteral
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


def inner(function: F) -> F:
    """Compile ``function`` as `compiled` does, for compiled callers only. It stays a function, and is not inlined."""
    return cast(F, _without_literals(_inner(function)))


def inner_fma(function: F) -> F:
    """Compile ``function`` as `compiled_fma` does, for compiled callers only, without counting references to arrays.

    That takes less time to compile; in exchange it must not make, slice or return an array.
    """
    return _inner(function, fastmath={"contract"}, _nrt=False)


def inner_reordered(function: F) -> F:
    """Compile ``function`` as `compiled_reordered` does, for compiled callers only."""
    return _inner(function, fastmath={"contract", "reassoc"})


def leaf(function: F) -> F:
    """Compile an inner loop as `inner_fma` does, to be inlined, without counting references to arrays.

    Each count is an atomic instruction, and a dozen of them take as long as the arithmetic of a tile. In exchange the
    function may index arrays and call other leaves, but it must not make, slice or return an array.
    """
    dispatcher = _inner(function, fastmath={"contract"}, _nrt=False, forceinline=True)
    return cast(F, _without_literals(dispatcher))


def sum_leaf(function: F) -> F:
    """Compile a leaf whose sums may be taken in any order, so that they use the processor's vector instructions.

    The order is chosen when the function is optimised, alone, so every call takes the same one.
    """
    return _inner(function, alone=True, fastmath={"contract", "reassoc"}, _nrt=False, forceinline=True)


def batch(function: F) -> F:
    """Compile ``function`` as `inner` does, but optimise it alone before its callers take it in.

    For plain loops over neighbours: the compiler makes better vector instructions of them so.
    """
    return _inner(function, alone=True)


def batch_fma(function: F) -> F:
    """Compile ``function`` as `inner_fma` does, optimised alone as a `batch`."""
    return _inner(function, alone=True, fastmath={"contract"})


def _compile(function: F, **options: Any) -> F:
    dispatcher = _without_collector(_without_literals(_dispatcher(function, no_cfunc_wrapper=True, **options)))
    if dispatcher is not function and has_sources(function):
        dispatcher._cache = KernelCache(function)
    return cast(F, dispatcher)


def _inner(function: F, alone: bool = False, **options: Any) -> F:
    dispatcher = _dispatcher(function, **(OPTIMISED if alone else INNER), **options)
    if dispatcher is not function:
        close_to_python(dispatcher, function)
    return cast(F, dispatcher)


def _dispatcher(function: F, **options: Any) -> Any:
    """Numba's object for a function; the function itself when NUMBA_DISABLE_JIT is set."""
    return numba.njit(nogil=True, error_model="numpy", **options)(function)


def _without_literals(dispatcher: Any) -> Any:
    """Let a call by a compiled function with a number that stands in its source be compiled as one with any number.

    Numba would compile another version for every such number. Where the function is inlined, both come to the same.
    """
    if hasattr(dispatcher, "get_call_template"):
        template = dispatcher.get_call_template
        dispatcher.get_call_template = lambda args, kws: template(
            [_unliteral(kind) for kind in args], {name: _unliteral(kind) for name, kind in kws.items()}
        )
    return dispatcher


def _without_collector(dispatcher: Any) -> Any:
    """Let the garbage collector rest while a function is compiled: the compiler's many objects are in use."""
    if hasattr(dispatcher, "get_call_template"):
        compile_it = dispatcher.compile

        def compile_undisturbed(signature: Any) -> Any:
            was_on = gc.isenabled()
            gc.disable()
            try:
                return compile_it(signature)
            finally:
                if was_on:
                    gc.enable()

        dispatcher.compile = compile_undisturbed
    return dispatcher
