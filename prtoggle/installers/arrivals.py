"""Tells when a module has been loaded by an import, whoever found it and whatever loader ran it.

A finder on `sys.meta_path` sees no module that a finder in front of it brings in, and a loader that compiles
by itself asks for no code that could be edited. What every import of a new module goes through is
`importlib._bootstrap._load_unlocked` (CPython 3.4 and later), so that is what stands behind a wrapper here.
An import of a module that is loaded already does not come by.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from importlib.machinery import ModuleSpec
    from types import ModuleType

_bootstrap: Any = importlib._bootstrap  # noqa: SLF001  # see above
_LazyModule: Any = importlib.util._LazyModule  # type: ignore[attr-defined]  # noqa: SLF001


class Arrivals:
    """Calls `arrived(name, module)` after each load that an import made, while it is installed."""

    def __init__(self, arrived: Callable[[str, ModuleType], None]) -> None:
        self._arrived = arrived
        self._before: Any = None
        self._wrapper: Any = None

    def install(self) -> None:
        """Begin to tell; does nothing when in place."""
        if self._wrapper is None:
            self._before = _bootstrap._load_unlocked  # noqa: SLF001
            self._wrapper = _bootstrap._load_unlocked = _telling(self._before, self._arrived)  # noqa: SLF001

    def remove(self) -> None:
        """Leave the import system as it was; a wrapper that others have wrapped stays."""
        if self._wrapper is not None and _bootstrap._load_unlocked is self._wrapper:  # noqa: SLF001
            _bootstrap._load_unlocked = self._before  # noqa: SLF001
            self._wrapper = None


def is_unloaded(module: object) -> bool:
    """Whether a lazy loader has put this module into `sys.modules`, and nobody has touched it yet."""
    # Not by isinstance, which asks the module for its class: that would load it.
    return type(module) is _LazyModule


def _telling(
    load: Callable[[ModuleSpec], ModuleType], arrived: Callable[[str, ModuleType], None]
) -> Callable[[ModuleSpec], ModuleType]:
    def _load_unlocked(spec: ModuleSpec) -> ModuleType:
        module = load(spec)
        try:
            arrived(spec.name, module)
        except BaseException:
            # As for a module whose own code raises.
            sys.modules.pop(spec.name, None)
            raise
        return module

    # Python leaves the import system's own frames out of tracebacks, by their file name.
    _load_unlocked.__code__ = _load_unlocked.__code__.replace(co_filename=load.__code__.co_filename)
    return _load_unlocked
