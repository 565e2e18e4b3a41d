"""When the laws of the stack are checked during a run, and how often that was."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvcore.errors import InvariantViolation

if TYPE_CHECKING:
    from collections.abc import Callable

    from kvcore.req import Req
    from kvcore.simulate.result import SimulationResult
    from kvcore.simulate.stack import Stack
    from kvcore.simulate.violation import Guard


class Checks:
    """Checks after every step, or once when all requests are done."""

    def __init__(self, stack: Stack, guard: Guard, result: SimulationResult, *, every_step: bool) -> None:
        self._stack = stack
        self._guard = guard
        self._result = result
        self._every_step = every_step

    def after_step(self, live_reqs: Callable[[], list[Req]]) -> None:
        """All laws, when they are to be checked after every step."""
        if self._every_step:
            self._check(live_reqs())

    def at_end(self) -> None:
        """All laws, and that nothing is held any more but by the cache."""
        self._check([])
        with self._guard("end of the run", ()):
            self._require_idle()
        self._result.checks += 1

    def _check(self, live: list[Req]) -> None:
        with self._guard("invariants", live):
            pass
        self._result.checks += 1

    def _require_idle(self) -> None:
        stack = self._stack
        held = stack.allocator.size - stack.slots_in_reach()
        if held:
            raise InvariantViolation(
                f"all requests are done, but {held} of {stack.allocator.size} slots are not free or evictable"
            )
        rows = stack.rows.size - stack.free_rows()
        if rows:
            raise InvariantViolation(
                f"all requests are done, but {rows} of {stack.rows.size} rows are still granted"
            )
