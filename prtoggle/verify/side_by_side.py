"""Runs calls that start processes in several threads, and leaves none behind when it is interrupted."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from prtoggle.process_group import ProcessGroups

_K = TypeVar("_K")
_T = TypeVar("_T")


def run_side_by_side(
    calls: Mapping[_K, Callable[[], _T]],
    groups: ProcessGroups,
    *,
    jobs: int,
    ended: Callable[[_K], None] = lambda _key: None,
) -> dict[_K, _T]:
    """The results by key, in the order of `calls`; `ended` is told of each call as it ends.

    Whatever is raised here or in a call ends all processes of `groups` first.
    """
    results: dict[_K, _T] = {}
    pool = ThreadPoolExecutor(max_workers=max(1, jobs))
    try:
        futures = {pool.submit(call): key for key, call in calls.items()}
        for future in as_completed(futures):
            results[futures[future]] = future.result()
            ended(futures[future])
    except BaseException:
        groups.cancel()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
    return {key: results[key] for key in calls}
