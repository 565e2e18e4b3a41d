"""When the laws of the stack are checked during a run, and how often that was."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvcore.invariants import InvariantChecker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvcore.req import Req
    from kvcore.simulate.result import SimulationResult
    from kvcore.simulate.stack import Stack
    from kvcore.simulate.violation import Guard


class Checks:
    """Checks after every step, or once when all requests are done; counts them in ``result``."""

    def __init__(self, stack: Stack, guard: Guard, result: SimulationResult, *, every_step: bool) -> None:
        self._checker = InvariantChecker(stack.rows, stack.allocator, stack.tree_cache)
        self._guard = guard
        self._result = result
        self.every_step = every_step
        """Whether ``after_step`` does anything."""

    def after_step(self, operation: str, live: Sequence[Req], touched: Sequence[Req]) -> None:
        """All laws, if they are to be checked after every step.

        ``live`` are the requests that hold rows; the rows of those that are not in ``touched`` must not have
        changed.
        """
        if not self.every_step:
            return
        with self._guard(f"the check after {operation}", live):
            self._checker.check(live, operation, touched=touched)
        self._result.checks += 1

    def at_end(self) -> None:
        """All laws, and that nothing is held any more but by the cache."""
        with self._guard("the check at the end", ()):
            self._checker.check((), "the last release")
            self._checker.check_idle("the last release")
        self._result.checks += 2
