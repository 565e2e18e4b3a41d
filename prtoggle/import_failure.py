"""Tells when a module fails while it is executed, even where the importer catches the exception.

A program may import a module in a `try` and do without it. When that module holds a target, its fallback
would run in place of the reverted code, without a word.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from traceback import StackSummary, TracebackException
from typing import TYPE_CHECKING, Final

from prtoggle.errors import TargetModuleError
from prtoggle.installers.at_load import plain_loader, unshadow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType, TracebackType


#: Where the frames between an importer and the imported module are.
_BETWEEN: Final = (
    f"{Path(__file__).parent}{os.sep}",
    f"{Path(importlib.util.__file__).parent}{os.sep}",
    "<frozen importlib",
)


def watch(modules: Iterable[str], failed: Callable[[str, Exception], object]) -> None:
    """Calls `failed(module, error)` when executing one of `modules` raises; the error then goes on."""
    sys.meta_path.insert(0, _Watch(modules, failed))


class _Watch:
    """A finder that finds what the others find, and puts itself between the import system and the module."""

    def __init__(self, modules: Iterable[str], failed: Callable[[str, Exception], object]) -> None:
        self._modules = frozenset(modules)
        self._failed = failed
        self._looking: set[str] = set()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec that the other finders give, with a loader whose `exec_module` reports failures."""
        del path
        # A reload (it has a target) of a module is the program's own act, and its failure reaches the caller.
        if fullname not in self._modules or fullname in self._looking or target is not None:
            return None
        # The import system holds the lock of this module, so nobody else looks for it meanwhile.
        self._looking.add(fullname)
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._looking.discard(fullname)
        loader = plain_loader(spec.loader) if spec is not None else None
        if isinstance(loader, SourceFileLoader):
            self._observe(loader, fullname)
        return spec

    def _observe(self, loader: SourceFileLoader, name: str) -> None:
        """Shadows `exec_module` on this one loader object, for one call; another's shadow comes back then."""
        before = loader.__dict__.get("exec_module")

        def exec_module(module: ModuleType) -> None:
            unshadow(loader, before)
            try:
                loader.exec_module(module)
            except Exception as error:
                self._failed(name, error.with_traceback(_below_import_system(error.__traceback__)))
                raise

        loader.exec_module = exec_module  # type: ignore[method-assign]


def own_error(error: BaseException) -> str:
    """The error behind that of a module which failed to import, as Python would show it, or nothing.

    Its frames in the import system and in prtoggle are left out. Where no others are left, the module was not
    executed, and the message of `error` says all there is to say.
    """
    cause = error.__cause__
    if cause is None or not isinstance(error, TargetModuleError):
        return ""
    shown = TracebackException.from_exception(cause)
    frames = [frame for frame in shown.stack if not frame.filename.startswith(_BETWEEN)]
    if not frames and not isinstance(cause, SyntaxError):
        return ""
    shown.stack = StackSummary.from_list(frames)
    return "".join(shown.format() if frames else shown.format_exception_only())


def _below_import_system(traceback: TracebackType | None) -> TracebackType | None:
    """The part of a traceback that begins in the module itself."""
    inner = traceback
    while inner is not None and inner.tb_frame.f_code.co_filename.startswith((__file__, "<frozen importlib")):
        inner = inner.tb_next
    return inner or traceback
