"""The public verbs: revert, reverted, active."""

from __future__ import annotations

import functools
import inspect
import os
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, cast, final

from prtoggle import engine
from prtoggle.spec import Toggle

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Generator
    from types import TracebackType

    from prtoggle.handle import Handle
    from prtoggle.states import ToggleState

# What decides, beside the folders, which catalogues there are.
_VARIABLES: Final = ("PRTOGGLE_PATH", "PRTOGGLE_CATALOGUES")
_F = TypeVar("_F", bound="Callable[..., Any]")


def revert(*toggles: int | str | Toggle) -> Handle:
    """Take the fixes of `toggles` (ids or `Toggle` values) out of this process.

    All of them take effect, or none: then a `PrToggleError` says why. A module that is not loaded is not
    imported; its toggles wait for it. Put the fixes back with the handle's `restore`.
    """
    _refuse_others("revert", toggles)
    return engine.revert(_resolved(toggles))


def _refuse_others(verb: str, toggles: tuple[object, ...]) -> None:
    """Raises TypeError for what is neither toggle nor id, such as the function of a bare `@reverted`."""
    for toggle in toggles:
        if isinstance(toggle, bool) or not isinstance(toggle, int | str | Toggle):
            raise TypeError(
                f"{verb} takes ids and Toggle values, each as an argument of its own, such as {verb}(26972); "
                f"found {toggle!r}"
            )
    if not toggles:
        raise TypeError(f"{verb} needs at least one toggle: an id or a Toggle")


def _resolved(toggles: tuple[int | str | Toggle, ...]) -> list[Toggle]:
    """The toggles of the ids. Raises UnknownToggleError when no catalogue has one."""
    return [toggle if isinstance(toggle, Toggle) else _by_id(str(toggle)) for toggle in toggles]


class _Found(NamedTuple):
    """A toggle as a catalogue gave it, and the state of everything that the answer depended on."""

    toggle: Toggle
    files: tuple[str, ...]
    state: tuple[object, ...]


_found: dict[str, _Found] = {}


def _by_id(toggle_id: str) -> Toggle:
    """The catalogue's toggle, from memory while neither its file, its folders nor the environment changed."""
    known = _found.get(toggle_id)
    if known is not None and _state(known.files) == known.state:
        return known.toggle
    from prtoggle.catalog import Catalog  # noqa: PLC0415  # reads YAML, which a caller with toggles does without

    catalog = Catalog.discover()
    toggle = catalog.get(toggle_id)
    if toggle.source is not None:
        files = (toggle.source.file, *(str(folder.path) for folder in catalog.folders))
        _found[toggle_id] = _Found(toggle, files, _state(files))
    return toggle


def _state(files: tuple[str, ...]) -> tuple[object, ...]:
    changed: list[object] = [os.getcwd(), *map(os.environ.get, _VARIABLES)]  # noqa: PTH109  # per flip
    for file in files:
        try:
            changed.append(os.stat(file).st_mtime_ns)  # noqa: PTH116  # per flip
        except OSError:
            changed.append(None)
    return tuple(changed)


@final
class Reverted:
    """Toggles that are reverted while a block, or a decorated function, runs.

    A decorated generator, coroutine or asynchronous generator holds the toggles while it runs, not while it
    is made.
    """

    __slots__ = ("_handles", "_toggles")

    def __init__(self, toggles: tuple[int | str | Toggle, ...]) -> None:
        self._toggles = toggles
        self._handles: list[Handle] = []

    def __enter__(self) -> Handle:
        handle = revert(*self._toggles)
        self._handles.append(handle)
        return handle

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._handles.pop().restore()

    def __call__(self, function: _F) -> _F:
        """The function, run with the toggles reverted; a staticmethod or classmethod stays one.

        Raises TypeError for what is not called itself, such as a class or a property.
        """
        made: Any = function
        if isinstance(made, staticmethod | classmethod):
            return cast("_F", type(made)(self(made.__func__)))
        if isinstance(made, type) or not callable(made):
            name = getattr(made, "__qualname__", None) or type(made).__name__
            raise TypeError(
                f"reverted decorates functions, and {name} is a {type(made).__name__}: decorate each of its "
                "functions that is to run without the fix"
            )
        wrapped: Any = functools.wraps(made)(_running(made, self._toggles))
        return cast("_F", wrapped)


def _running(function: Callable[..., Any], toggles: tuple[int | str | Toggle, ...]) -> Callable[..., Any]:
    """A function of the same kind that holds the toggles while the one given runs."""
    # Of an object with a __call__, that is what decides.
    body = function if inspect.isroutine(function) or _is_partial(function) else type(function).__call__
    wrapper: Any
    if inspect.isasyncgenfunction(body):

        async def wrapper(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
            with Reverted(toggles):
                async for item in function(*args, **kwargs):
                    yield item

    elif inspect.iscoroutinefunction(body):

        async def wrapper(*args: Any, **kwargs: Any) -> Any:
            with Reverted(toggles):
                return await function(*args, **kwargs)

    elif inspect.isgeneratorfunction(body):

        def wrapper(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
            with Reverted(toggles):
                return (yield from function(*args, **kwargs))

    else:

        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with Reverted(toggles):
                result = function(*args, **kwargs)
            return _held(result, toggles)

    return cast("Callable[..., Any]", wrapper)


def _is_partial(function: object) -> bool:
    return isinstance(function, functools.partial)


def _held(result: Any, toggles: tuple[int | str | Toggle, ...]) -> Any:
    """What a call returned; where it has not run yet (another decorator hid its kind), it runs reverted."""
    kind: Callable[[], Any]
    if inspect.iscoroutine(result):

        async def kind() -> Any:
            return await result

    elif inspect.isgenerator(result):

        def kind() -> Any:
            return (yield from result)

    elif inspect.isasyncgen(result):

        async def kind() -> Any:
            async for item in result:
                yield item

    else:
        return result
    return _running(kind, toggles)()


def reverted(*toggles: int | str | Toggle) -> Reverted:
    """The toggles for the length of a `with` block, or of each call of the function that this decorates."""
    _refuse_others("reverted", toggles)
    return Reverted(toggles)


def active() -> list[ToggleState]:
    """How every toggle that is reverted in this process stands: armed, active or failed."""
    return engine.states()
