"""Exchange of a live function's code, so that every reference to the function follows.

The function object stays: names bound early, dispatch tables, partials and bound methods hold it, and its
attributes, its identity and pickling by reference are untouched.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import weakref
from typing import TYPE_CHECKING, Any, Final

from prtoggle.errors import RestoreError, UnsupportedTargetError
from prtoggle.installers import probes
from prtoggle.installers.base import Variant

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import CodeType, FunctionType

    from prtoggle.installers.base import Follower

LRU_CACHE: Final = type(functools.lru_cache(lambda: None))
# What takes its docstring from the function inside, other than by `functools.wraps`.
_COPYING: Final = (property, classmethod, staticmethod, functools.cached_property)


def refuse_free_threaded(target: str) -> None:
    """Raise UnsupportedTargetError when the GIL is off: three stores would not be one exchange there."""
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        raise UnsupportedTargetError(
            f"{target}: with the GIL off (free-threaded Python), a loaded function cannot be exchanged "
            "safely; arm the toggle before the module is loaded, or start with PYTHON_GIL=1",
            target=target,
        )


def installed_code(variant: Variant) -> CodeType:
    """The code object that stands in the function while the variant is in effect."""
    return probes.present(variant.code if variant.probed is None else variant.probed)


def unedited(function: FunctionType, target: str) -> Variant:
    """What the function runs and carries now, as the variant to come back to: the very objects."""
    return Variant(
        target, function.__code__, None, function.__defaults__, function.__kwdefaults__, None, (), ()
    )


class CacheFollower:
    """Empties a `functools.lru_cache` around the function: its answers were computed by other code."""

    def __init__(self, cache: functools._lru_cache_wrapper[object]) -> None:
        self._cache = cache

    def prepare(self, variant: Variant | None) -> None:
        """Nothing can go wrong."""

    def follow(self, variant: Variant | None) -> None:  # noqa: ARG002  # emptied both ways
        """Forget every cached answer."""
        self._cache.cache_clear()


def cache_follower(holder: object) -> Follower | None:
    """The follower for an `lru_cache` wrapper, else None."""
    return CacheFollower(holder) if isinstance(holder, LRU_CACHE) else None


def _exchange_docstrings(
    function: FunctionType, holders: Iterable[Any], before: str | None, after: str | None
) -> None:
    """Put `after` where the function, and what decorators made of it, carry the docstring `before`.

    A text of their own, or one that somebody has put there, stays.
    """
    if function.__doc__ == before:
        function.__doc__ = after
    for holder in holders:
        if holder.__doc__ == before and (before is not None or _has_none_of_its_own(holder)):
            # What cannot be given one has not copied it.
            with contextlib.suppress(AttributeError, TypeError):
                holder.__doc__ = after


def _has_none_of_its_own(holder: object) -> bool:
    """Whether a holder lacks a docstring because its function does."""
    return type(holder) in _COPYING or "__wrapped__" in getattr(holder, "__dict__", ())


class LiveFunction:
    """One live function, what it shows now, and what follows it. Does not keep the function alive.

    `holders` are what decorators made of it: they may have copied its docstring.
    """

    __slots__ = ("_annotations", "_found", "_function", "_holders", "followers", "shown", "target")

    def __init__(
        self,
        function: FunctionType,
        target: str,
        shown: Variant,
        followers: Iterable[Follower] = (),
        holders: Iterable[object] = (),
    ) -> None:
        self._function = weakref.ref(function)
        self._holders = tuple(holders)
        self._annotations: dict[str, object] | None = None
        self._found = shown
        self.target = target
        self.shown = shown
        self.followers = tuple(followers)

    @property
    def is_simple(self) -> bool:
        """Whether nothing follows the function but caches, which cannot refuse to be emptied."""
        return all(type(follower) is CacheFollower for follower in self.followers)

    @property
    def function(self) -> FunctionType | None:
        """The function, or None when nobody holds it any more."""
        return self._function()

    def is_untouched(self) -> bool:
        """Whether the function still carries what was put there last (or was found first)."""
        function = self._function()
        if function is None:
            return True
        shown = self.shown
        code = function.__code__
        return (
            (code is shown.code or code is shown.probed or probes.same_function(code, shown.code))
            and function.__defaults__ is shown.defaults
            and function.__kwdefaults__ is shown.kwdefaults
        )

    def refuse_touched(self) -> None:
        """Raise RestoreError when somebody else exchanged the function's code or defaults meanwhile."""
        if not self.is_untouched():
            raise RestoreError(
                f"{self.target}: somebody else changed the function's code or defaults while a toggle was "
                "active on it; nothing was changed, so that their change is not lost. Undo theirs first",
                target=self.target,
            )

    def show(self, variant: Variant) -> None:
        """Exchange the function's code and what goes with it, then let everything derived follow.

        A follower that fails raises its error after everything was put back.
        """
        before = self.shown
        self._exchange(variant)
        done = 0
        try:
            for follower in self.followers:
                done += 1
                follower.follow(None if variant is self._found else variant)
        except BaseException:
            self._exchange(before)
            for follower in self.followers[:done]:
                follower.follow(None if before is self._found else before)
            raise

    def _exchange(self, variant: Variant) -> None:
        function = self._function()
        if function is None:
            self.shown = variant
            return
        defaults, kwdefaults = variant.defaults, variant.kwdefaults
        # A probe in another thread must not put its code into the function behind our back.
        with probes.LOCK:
            code = installed_code(variant)
            # Three straight lines: no other thread can run between them, so none sees new code with old
            # defaults.
            function.__code__ = code
            function.__defaults__ = defaults
            function.__kwdefaults__ = kwdefaults
        if variant.docstring != self.shown.docstring:
            _exchange_docstrings(function, self._holders, self.shown.docstring, variant.docstring)
        self.shown = variant
        if variant.annotations is not None or self._annotations is not None:
            self._exchange_annotations(function, variant)

    def _exchange_annotations(self, function: FunctionType, variant: Variant) -> None:
        before = function.__annotations__
        if self._annotations is None:
            self._annotations = before
        after = self._annotations if variant.annotations is None else variant.annotations
        function.__annotations__ = after
        for holder in self._holders:
            # `functools.wraps` and its like hand on the very dictionary.
            if getattr(holder, "__annotations__", None) is before:
                with contextlib.suppress(AttributeError, TypeError):
                    holder.__annotations__ = after
