"""What reverting toggles gives back: the hold on them, and the way to let go of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, Self

if TYPE_CHECKING:
    from collections.abc import Sequence
    from threading import RLock
    from types import TracebackType

    from prtoggle.plans.slots import Slot
    from prtoggle.spec import Toggle


class Holder(Protocol):
    """Who counts the holds: the engine."""

    lock: RLock

    def release(self, slots: Sequence[Slot]) -> None:
        """Gives up one hold on each of `slots`; the caller holds the lock."""


class Handle:
    """Toggles that are reverted until `restore` is called; as a context manager, until the block ends."""

    __slots__ = ("_done", "_engine", "_entered", "_slots")

    def __init__(self, engine: Holder, slots: tuple[Slot, ...]) -> None:
        self._engine = engine
        self._slots = slots
        self._done = False
        self._entered = False

    @property
    def toggles(self) -> tuple[Toggle, ...]:
        """The toggles that this handle holds, in the order in which they were asked for."""
        return tuple(slot.toggle for slot in self._slots)

    @property
    def is_restored(self) -> bool:
        """Whether this handle has given its toggles back."""
        return self._done

    def restore(self) -> None:
        """Put the fixes back, except for toggles that another handle still holds; a second call does nothing.

        Raises RestoreError, with nothing changed and the handle still holding its toggles, when somebody
        else changed a target meanwhile, or when a statement of a module ran reverted and cannot run again.
        """
        with self._engine.lock:
            if not self._done:
                self._engine.release(self._slots)
                self._done = True

    def __enter__(self) -> Self:
        if self._done or self._entered:
            state = "restored its toggles already" if self._done else "is entered already"
            raise RuntimeError(
                f"{self!r} {state}: the fixes would be in for a part of the block. Call "
                "prtoggle.revert once more, or use prtoggle.reverted, which can be entered again"
            )
        self._entered = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.restore()

    def __repr__(self) -> str:
        ids = ", ".join(slot.id for slot in self._slots)
        return f"<prtoggle.Handle {ids}: {'restored' if self._done else 'reverted'}>"
