"""Tells when Triton takes up a kernel's source: the Python function of a kernel itself is never called.

A kernel counts as called and reached when its source is parsed to be compiled (or hashed for that), or when
the interpreter runs it. Of a compiled kernel nobody sees which of its statements run.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

import wrapt

from prtoggle.installers import after_load, triton_jit

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, ModuleType

# Module, the classes of which the first that defines it has the method, and the method.
_PLACES: Final = (
    ("triton.runtime.jit", ("JITCallable", "JITFunction"), "parse"),
    ("triton.runtime.interpreter", ("InterpretedFunction",), "rewrite"),
)


def watch(used: Callable[[CodeType], None]) -> None:
    """Call `used` with the code of a kernel's function at each use of it. Does not import Triton."""
    for module, classes, method in _PLACES:

        def wrap(loaded: ModuleType, classes: tuple[str, ...] = classes, method: str = method) -> None:
            _wrap(loaded, classes, method, used)

        present = sys.modules.get(module)
        if present is not None and hasattr(present, classes[-1]):
            wrap(present)
        else:
            after_load.watch(module, wrap)


def _wrap(
    module: ModuleType, classes: tuple[str, ...], method: str, used: Callable[[CodeType], None]
) -> None:
    def use(wrapped: Callable[..., Any], instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        # A flip computes cache keys to verify itself, which is no use of the kernel.
        if not triton_jit.is_flipping():
            code = getattr(getattr(instance, "fn", None), "__code__", None)
            if code is not None:
                used(code)
        return wrapped(*args, **kwargs)

    for name in classes:
        kind = getattr(module, name, None)
        if kind is not None and method in vars(kind):
            wrapt.wrap_function_wrapper(kind, method, use)
            return
