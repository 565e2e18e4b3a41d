"""The at-load path: the import system is given the code of the edited source.

One wrapt wrapper on `SourceFileLoader.get_code` stands while any toggle waits for a module or is active. It
answers for the wanted files and passes everything else on. A finder in front of the others sees to it that
a wanted module comes from a loader that the wrapper covers, and calls back when the module has run; it puts
no loader of its own on any module. Neither reads nor writes a `.pyc` of a wanted file. What a finder in front
of that one brings in is looked at when it has been loaded.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import SourceFileLoader
from typing import TYPE_CHECKING, Any, Protocol

import wrapt

from prtoggle.errors import UnsupportedTargetError
from prtoggle.installers.arrivals import Arrivals

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import CodeType, ModuleType


class Edits(Protocol):
    """What the import system asks of the engine. Errors are raised out of the import, each time anew."""

    def wants_module(self, name: str) -> bool:
        """Whether a toggle has a source edit for the module of that name."""

    def wants_file(self, path: str) -> bool:
        """Whether a toggle has a source edit for that file."""

    def code(self, loader: SourceFileLoader, name: str, path: str) -> CodeType | None:
        """The code of the edited file, imported under `name`; None when it is not one of ours after all."""

    def loaded(self, module: ModuleType, present: object) -> None:
        """The module has run; verify that it defines what was edited.

        `present` is the module, or what it has put into `sys.modules` in its own place.
        """

    def arrived(self, name: str, module: ModuleType) -> None:
        """An import loaded the module of that name, by whatever way; see to it that its edits are in."""

    def foreign(self, name: str, error: UnsupportedTargetError) -> None:
        """A wanted module comes from another kind of loader; `error` follows."""


class Hook:
    """Puts the wrapper and the finder in place, and takes them away."""

    def __init__(self, edits: Edits) -> None:
        self._edits = edits
        self._wrapper: Any = None
        self._sentry = _Sentry(edits)
        self._arrivals = Arrivals(edits.arrived)

    def install(self) -> None:
        """Begin to answer; does nothing when in place."""
        if self._wrapper is None:
            self._wrapper = wrapt.wrap_function_wrapper(SourceFileLoader, "get_code", self._get_code)
        if self._sentry not in sys.meta_path:
            sys.meta_path.insert(0, self._sentry)
        self._arrivals.install()

    def remove(self) -> None:
        """Leave the import system as it was; a wrapper that others have wrapped stays, and passes on."""
        self._arrivals.remove()
        if self._sentry in sys.meta_path:
            sys.meta_path.remove(self._sentry)
        if self._wrapper is not None:
            try:
                wrapt.unwrap_object(SourceFileLoader, "get_code", self._wrapper)
            except (wrapt.WrapperNotFoundError, wrapt.WrapperNotOutermostError):
                return
            self._wrapper = None

    def _get_code(
        self,
        wrapped: Callable[..., CodeType],
        instance: SourceFileLoader,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> CodeType:
        name = args[0] if args else kwargs.get("fullname", instance.name)
        if not (self._edits.wants_file(instance.path) or self._edits.wants_module(name)):
            return wrapped(*args, **kwargs)
        if _is_shadowed(instance):
            # runpy takes the code and runs it itself, so that nobody would take the shadow away.
            unshadow(instance, instance.__dict__["exec_module"].__prtoggle__)
        code = self._edits.code(instance, name, instance.path)
        return wrapped(*args, **kwargs) if code is None else code


class _Sentry:
    """A finder that finds what the finders behind it find, and looks at the loader."""

    def __init__(self, edits: Edits) -> None:
        self._edits = edits
        self._looking: set[str] = set()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of a wanted module, told to call back; None for every other module."""
        if fullname in self._looking or not self._edits.wants_module(fullname):
            return None
        # The import system holds the lock of this module, so nobody else looks for it meanwhile.
        self._looking.add(fullname)
        try:
            spec = self._found(fullname, path, target)
        finally:
            self._looking.discard(fullname)
        if spec is None or spec.loader is None:
            return spec
        loader = plain_loader(spec.loader)
        if isinstance(loader, SourceFileLoader):
            _call_back(loader, self._edits.loaded)
        else:
            refusal: Any = _Refusal(spec.loader, self._refused(fullname, spec), self._edits)
            spec.loader = refusal
        return spec

    def _found(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None
    ) -> ModuleSpec | None:
        behind = sys.meta_path[sys.meta_path.index(self) + 1 :] if self in sys.meta_path else []
        for finder in behind:
            spec = finder.find_spec(fullname, path, target)
            if spec is not None:
                return spec
        return None

    def _refused(self, fullname: str, spec: ModuleSpec) -> UnsupportedTargetError:
        kind = spec.loader if isinstance(spec.loader, type) else type(spec.loader)
        return UnsupportedTargetError(
            f"module {fullname} ({spec.origin}) is brought in by {kind.__module__}.{kind.__qualname__}, not "
            "from a source file by Python's own loader, so its source cannot be edited on the way in; use "
            "wrap: on it, or let it be imported from a plain source file",
            target=fullname,
        )


class _Refusal:
    """Stands for a loader whose module must not run as it is; raises when it is asked to."""

    def __init__(self, loader: Any, error: UnsupportedTargetError, edits: Edits) -> None:
        self._loader = loader
        self._error = error
        self._edits = edits

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Refuse before anything of the module exists."""
        self._edits.foreign(spec.name, self._error)
        raise self._error

    def exec_module(self, module: ModuleType) -> None:
        """Refuse a reload."""
        self._edits.foreign(module.__name__, self._error)
        raise self._error


def plain_loader(loader: object) -> object:
    """The loader that a post-import hook has put its proxy around.

    What is set on such a proxy is set on the loader. A shadow there that calls the proxy again would let it
    tell of one load twice.
    """
    while isinstance(loader, wrapt.BaseObjectProxy):
        loader = loader.__wrapped__
    return loader


def _call_back(loader: SourceFileLoader, loaded: Callable[[ModuleType, object], None]) -> None:
    """Shadow `exec_module` on this one loader object, for one call."""
    if _is_shadowed(loader):
        return
    before = loader.__dict__.get("exec_module")

    def exec_module(module: ModuleType) -> None:
        unshadow(loader, before)
        is_registered = sys.modules.get(module.__name__) is module
        loader.exec_module(module)
        loaded(module, sys.modules.get(module.__name__, module) if is_registered else module)

    exec_module.__prtoggle__ = before  # type: ignore[attr-defined]  # recognises its own shadow
    loader.exec_module = exec_module  # type: ignore[method-assign]


def _is_shadowed(loader: SourceFileLoader) -> bool:
    return hasattr(loader.__dict__.get("exec_module"), "__prtoggle__")


def unshadow(loader: SourceFileLoader, before: Any) -> None:
    """Take the shadow of `exec_module` off a loader object; `before` is what it had of its own, or None."""
    if before is None:
        loader.__dict__.pop("exec_module", None)
    else:
        loader.exec_module = before  # type: ignore[method-assign]


def same_file(one: str, other: str) -> bool:
    """Whether two paths lead to one file, by links of any kind."""
    if one == other:
        return True
    identity = file_identity(one)
    if identity is None:
        return os.path.realpath(one) == os.path.realpath(other)
    return identity == file_identity(other)


def file_identity(path: str) -> tuple[int, int] | None:
    """What all links to a file have in common; None for a file that is not there."""
    try:
        found = os.stat(path)  # noqa: PTH116  # asked for every module that is imported
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino
