"""`wrap:` patches: a function of the user's around whatever callable the target is, C functions included.

The wrapper has wrapt's signature `(wrapped, instance, args, kwargs)`, and what is put in place is wrapt's
`FunctionWrapper`, with one exception: torch.compile looks through wrapt's proxies, so that a wrapper around a
plain Python function would be without effect in a compiled caller. Such a function is replaced by a plain
function that makes the same call. Who bound the target early is rebound too (see `holders`).
"""

from __future__ import annotations

import functools
import inspect
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, cast

import wrapt

from prtoggle.dynamo import forget_compiled
from prtoggle.errors import RestoreError, UnsupportedTargetError
from prtoggle.installers import holders
from prtoggle.installers.wrap_target import DESCRIPTORS, load_wrapper, refuse_unwrappable, resolve

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from prtoggle.installers.base import LivePatch
    from prtoggle.installers.wrap_target import WrapperFunction


def plan(patch: LivePatch) -> WrapStep:
    """Resolve target and wrapper; raises a PrToggleError leaf that names the target. Changes nothing.

    The module that holds the wrapper function is imported.
    """
    target = patch.patch.target
    wrapper = load_wrapper(patch.patch.wrap or "", target)
    owner, attribute, original = resolve(patch.module, patch.qualname, target)
    refuse_unwrappable(owner, original, target)
    return WrapStep(target, owner, attribute, original, wrapper)


class WrapStep:
    """One target with its wrapper; `install` and `restore` alternate, under the engine's lock."""

    __slots__ = (
        "__weakref__",
        "_attribute",
        "_owner",
        "_replacement",
        "_report",
        "_target",
        "_wrapper",
        "original",
    )

    def __init__(
        self, target: str, owner: Any, attribute: str, original: Any, wrapper: WrapperFunction
    ) -> None:
        self._target = target
        self._owner = owner
        self._attribute = attribute
        self.original = original
        self._wrapper = wrapper
        self._replacement: _Replacement | None = None
        self._report: Callable[[], None] | None = None

    def report_calls(self, report: Callable[[], None]) -> None:
        """Call `report` at the first call from now on; later calls cost nothing more."""
        self._report = report
        if self._replacement is not None:
            self._replacement.call = self._reporting

    def install(self) -> None:
        """Put the wrapper at the target and wherever else the original is held."""
        if vars(self._owner).get(self._attribute) is not self.original:
            raise RestoreError(
                f"{self._target} was replaced by something else after the toggle was planned",
                target=self._target,
            )
        places = self._places()
        replacement = _Replacement(self._owner, self.original)
        replacement.call = self._wrapper if self._report is None else self._reporting
        try:
            holders.exchange(places, self.original, replacement.object)
        except (AttributeError, TypeError) as error:
            raise UnsupportedTargetError(
                f"{self._target} cannot be replaced ({error}): this {type(self._owner).__name__} does not "
                "let its attributes be set. Wrap a caller of it instead.",
                target=self._target,
            ) from error
        self._replacement = replacement
        _installed.append(self)

    def restore(self) -> None:
        """Take the wrapper away, also from beneath another one that was put around it later.

        Who bound the wrapped object meanwhile is rebound too; where that cannot be done, the wrapped object
        does what the original does from now on.
        """
        replacement = self._replacement
        assert replacement is not None, f"{self._target} is not wrapped"
        held = vars(self._owner).get(self._attribute)
        above = next((step for step in _installed if step.original is replacement.object), None)
        if above is not None:
            above.rebase(self.original)
        elif held is not replacement.object and not _is_buried(held, replacement.object):
            raise RestoreError(
                f"{self._target} was changed after the toggle was reverted: it is {holders.short(held)} now. "
                "Undo that change first, then restore.",
                target=self._target,
            )
        elif held is not replacement.object:
            wrapt.unwrap_object(self._owner, self._attribute, replacement.object)
        replacement.call = _pass_through
        places, _ = holders.find(replacement.object, forget=forget_compiled)
        holders.exchange(places, replacement.object, self.original)
        self._replacement = None
        _installed.remove(self)

    def is_in_effect(self) -> bool:
        """Whether the target leads to the wrapper, be it beneath other wrappers."""
        ours = None if self._replacement is None else self._replacement.object
        held = vars(self._owner).get(self._attribute)
        above = any(step.original is ours for step in _installed)
        return ours is not None and (above or held is ours or _is_buried(held, ours))

    def rebase(self, original: Any) -> None:
        """Wrap another object: the one that our original was put around."""
        assert self._replacement is not None, f"{self._target} is not wrapped"
        self.original = original
        self._replacement.rebase(original)

    def _places(self) -> list[holders.Place]:
        """The target's own place first, then whoever bound it early. Raises where a holder cannot follow."""
        container = vars(self._owner) if isinstance(self._owner, ModuleType) else self._owner
        found, others = holders.find(self.original, forget=forget_compiled)
        function = _function_of(self.original)
        if function is not self.original:
            # K.method, taken early, is the function or a bound method of it, not the descriptor around it.
            early, bound = holders.find(function, ignore=[self.original], forget=forget_compiled)
            others += [*map(str, early), *bound]
        if others:
            raise UnsupportedTargetError(
                f"{self._target} is also held by {'; '.join(sorted(set(others))[:5])}, which cannot be made "
                "to hold the wrapped one. Revert before these are created (set PRTOGGLE before the module is "
                "imported), or wrap what calls it.",
                target=self._target,
            )
        rest = [place for place in found if not place.is_at(container, self._attribute)]
        return [holders.Place(container, self._attribute), *rest]

    def _reporting(
        self,
        wrapped: Callable[..., Any],
        instance: Any,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> Any:
        report, self._report = self._report, None
        if report is not None:
            if self._replacement is not None:
                self._replacement.call = self._wrapper
            report()
        return self._wrapper(wrapped, instance, args, kwargs)


# Steps in effect, oldest first; of two on one target the later one wraps what the earlier one put there.
_installed: list[WrapStep] = []


def _is_buried(held: object, ours: object) -> bool:
    """Whether our wrapper stands beneath somebody else's wrapt wrappers, from where wrapt can take it."""
    outermost, *chain = wrapt.wrapper_chain(held)
    return (
        isinstance(ours, wrapt.FunctionWrapper)
        and issubclass(type(outermost), wrapt.BaseObjectProxy)
        and any(entry is ours for entry in chain)
    )


class _Replacement:
    """What is put in the place of an object: the same kind of descriptor, around the same kind of function.

    What it calls, and what it is wrapped around, can be changed while callers hold it.
    """

    __slots__ = ("_cells", "object")

    def __init__(self, owner: Any, original: Any) -> None:
        function = _function_of(original)
        call: Any
        if not _is_traceable(function):
            call = _indirect(_pass_through)
            self.object: Any = wrapt.FunctionWrapper(original, call)
        else:
            is_method = isinstance(owner, type) and not isinstance(original, staticmethod)
            call = functools.wraps(function)((_method if is_method else _plain)(function, _pass_through))
            self.object = type(original)(call) if isinstance(original, DESCRIPTORS) else call
        self._cells = dict(zip(call.__code__.co_freevars, call.__closure__ or (), strict=True))

    @property
    def call(self) -> WrapperFunction:
        """The function that makes the call."""
        found: WrapperFunction = self._cells["wrapper"].cell_contents
        return found

    @call.setter
    def call(self, wrapper: WrapperFunction) -> None:
        self._cells["wrapper"].cell_contents = wrapper

    def rebase(self, original: Any) -> None:
        """Wrap another object of the same kind."""
        if isinstance(self.object, wrapt.FunctionWrapper):
            self.object.__wrapped__ = original
        else:
            function = _function_of(original)
            self._cells["function"].cell_contents = function
            _function_of(self.object).__wrapped__ = function


def _function_of(original: Any) -> Any:
    return original.__func__ if isinstance(original, DESCRIPTORS) else original


def _pass_through(
    wrapped: Callable[..., Any], instance: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Any:
    del instance
    return wrapped(*args, **kwargs)


def _plain(function: FunctionType, wrapper: WrapperFunction) -> FunctionType:
    def stand_in(*args: Any, **kwargs: Any) -> Any:
        return wrapper(function, None, args, kwargs)

    return cast("FunctionType", stand_in)


def _method(function: FunctionType, wrapper: WrapperFunction) -> FunctionType:
    def stand_in(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        return wrapper(function.__get__(self), self, args, kwargs)

    return cast("FunctionType", stand_in)


def _indirect(wrapper: WrapperFunction) -> FunctionType:
    def call(
        wrapped: Callable[..., Any], instance: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any:
        return wrapper(wrapped, instance, args, kwargs)

    return cast("FunctionType", call)


def _is_traceable(function: object) -> bool:
    """Whether torch.compile would follow the function; wrapt keeps the kind of async ones and generators."""
    return (
        type(function) is FunctionType
        and not inspect.iscoroutinefunction(function)
        and not inspect.isgeneratorfunction(function)
        and not inspect.isasyncgenfunction(function)
    )
