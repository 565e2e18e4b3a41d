"""Whether reverted code was called and edited statements reached, in this process.

A function that was reverted and never reached proves nothing. Toggles that are reverted with `observe` are
listened for: `start` arms the one observer of the process, which tells the engine's subscribers (`Called`,
`Reached`) and keeps the answers for `called` and `reached`. A forked child starts from nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prtoggle import engine
from prtoggle.installers.observing import ReachObserver
from prtoggle.states import Called, Reached

if TYPE_CHECKING:
    from prtoggle.installers.observing import Call, Reach

_observers: list[ReachObserver] = []


def start() -> None:
    """Let the engine observe what is reverted with `observe` from now on; a second call does nothing."""
    if not _observers:
        _observers.append(ReachObserver(_tell_call, _tell_reach))
        engine.observe_with(_observers[0])


def restart() -> None:
    """Forget what was called and reached so far, and listen anew: a question about one stretch of a run."""
    start()
    _observers[0].rearm()


def called(toggle_id: str, target: str | None = None) -> bool:
    """Whether a function that the toggle reverts (one of that target) was called since it was observed."""
    return any(
        known == toggle_id and target in (None, where)
        for observer in _observers
        for known, where in _spelled(observer.calls)
    )


def reached(toggle_id: str, target: str | None = None) -> bool:
    """Whether a statement that the toggle edits (one of that target) was reached since it was observed."""
    return any(
        known == toggle_id and target in (None, where)
        for observer in _observers
        for known, where in _spelled({key[:2] for key in observer.reaches})
    )


def _spelled(keys: set[Call]) -> list[Call]:
    return [(toggle_id, _as_written(toggle_id, target)) for toggle_id, target in keys]


def _as_written(toggle_id: str, target: str) -> str:
    """The target as the spec spells it: edits know `pkg.module:name` as `pkg.module.name`."""
    toggle = engine.known(toggle_id)
    for written in toggle.targets if toggle is not None else ():
        if written.replace(":", ".") == target:
            return written
    return target


def _tell_call(key: Call) -> None:
    toggle_id, target = key
    engine.emit(Called(toggle_id, _as_written(toggle_id, target)))


def _tell_reach(key: Reach) -> None:
    toggle_id, target, edit_index = key
    engine.emit(Reached(toggle_id, _as_written(toggle_id, target), edit_index))
