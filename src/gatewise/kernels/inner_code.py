"""Functions that only compiled functions call: typed and written down for LLVM, but no machine code of their own.

A compiled function contains all that it calls, and LLVM optimises the whole once more. What numba makes of every
function besides, optimised code of its own, wrappers for Python and for C, and a file on disk, is therefore of no use
where Python never calls the function, and it takes most of the time of a first use. A function that is compiled with
`INNER` goes without: its library keeps the code as it was written down, for the functions that call it. Unless it is
to be inlined it stays a function of its own in their machine code, whose arrays the compiler then knows as arguments.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import binding
from numba.core import codegen, compiler

_Library: Any = codegen.JITCodeLibrary
_Compiler: Any = compiler.Compiler

INLINED = b"alwaysinline"
ENVIRONMENT = "_ZN08NumbaEnv"  # how numba begins the name of the variable that holds a function's environment
ONLY_INSIDE = "{} is called by compiled functions only; to call it from Python, call it in a function of `compiled`"


class InnerLibrary(_Library):  # type: ignore[misc]
    """The code of one function, for others to take in."""

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout  # modules with another layout cannot be joined
        for function in ll_module.functions:
            if not function.is_declaration and not any(INLINED in group for group in function.attributes):
                function.add_function_attribute("noinline")

    def _optimize_final_module(self) -> None:
        pass

    def _get_module_for_linking(self) -> Any:
        """The module itself: it is never run, so its functions may be marked for those who take it in."""
        self._ensure_finalized()
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage == binding.Linkage.external:
                function.linkage = "linkonce_odr"
        return self._final_module

    def _finalize_final_module(self) -> None:
        """Make known the variables that numba writes to, and nothing else."""
        self._finalize_dynamic_globals()
        engine, module = self._codegen._engine, self._final_module
        new = [str(variable) for variable in module.global_variables if _is_environment(variable.name, engine)]
        if new:
            variables = binding.parse_assembly("\n".join(new))
            variables.name, variables.triple, variables.data_layout = self.name, module.triple, module.data_layout
            self._codegen._add_module(variables)
            engine.finalize_object()
        self._finalized = True


def _is_environment(name: str, engine: Any) -> bool:
    return name.startswith(ENVIRONMENT) and not engine.is_symbol_defined(name)


class InnerCompiler(_Compiler):  # type: ignore[misc]
    """Numba's compiler, with an `InnerLibrary` for what it makes."""

    def __init__(self, typingctx: Any, targetctx: Any, library: Any, *others: Any) -> None:
        own = InnerLibrary(targetctx.codegen(), "inner") if library is None else library
        super().__init__(typingctx, targetctx, own, *others)


OPTIMISED = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}  # without wrappers and file, but optimised alone
INNER = {**OPTIMISED, "pipeline_class": InnerCompiler}


def close_to_python(dispatcher: Any, function: Callable[..., Any]) -> None:
    """Let a call from Python raise an error: there is no code that Python could call."""

    def refuse(*_: Any, **__: Any) -> None:
        raise TypeError(ONLY_INSIDE.format(f"{function.__module__}.{function.__qualname__}"))

    dispatcher._insert = lambda *_: None  # numba's table of what a call from Python finds stays empty
    dispatcher._compile_for_args = refuse
