"""The answers that `functools.lru_cache` keeps: one that can change is one list for both runs."""

from __future__ import annotations

import functools
import gc
from collections import deque
from typing import Any, Final

from prtoggle.trace.shared import Watch

_CONTAINERS: Final = (list, dict, set, deque, bytearray)


class AnswersWatch(Watch):
    """The answers of one cache that can change, as they stood when this was made."""

    def __init__(self, name: str, cache: Any) -> None:
        """`cache` is what `lru_cache` made of a function."""
        self._cache = cache
        self._answers = answers_of(cache)
        super().__init__(f"the answers of {name}", {str(at): item for at, item in enumerate(self._answers)})

    def changed(self) -> str | None:
        """The first answer that is not what it was, or that is kept only since then."""
        known = set(map(id, self._answers))
        if any(id(item) not in known for item in answers_of(self._cache)):
            return self._name
        return super().changed()


def answers_of(cache: Any) -> list[Any]:
    """The containers among the answers that a cache keeps."""
    if not cache.cache_info().currsize:
        return []
    held = [item for item in gc.get_referents(cache) if item is not vars(cache)]
    if cache.cache_parameters()["maxsize"] is None:
        held = [answer for item in held if type(item) is dict for answer in item.values()]
    return [item for item in held if isinstance(item, _CONTAINERS) and not _is_index(item)]


def _is_index(item: Any) -> bool:
    """Whether it is where a cache of limited size finds its answers."""
    return type(item) is dict and any(
        type(link).__name__ == "_lru_list_elem" and type(link).__module__ == "functools"
        for link in item.values()
    )


def is_cache(value: object) -> bool:
    """Whether `lru_cache` or `cache` made the value."""
    return isinstance(value, functools._lru_cache_wrapper)  # noqa: SLF001  # the only name of that type
