"""Turns whatever goes wrong in the stack into one message: which request, which operation, what numbers."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from kvcore.errors import KVCacheError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from kvcore.req import Req

_MAX_NAMED = 4
"""Requests of a batch that a message names when no single one is to blame."""


class Violation(KVCacheError, AssertionError):
    """The stack broke a promise; ``request`` is ``None`` when no single request is to blame."""

    def __init__(self, *, operation: str, request: str | None, numbers: str, moment: str, cause: str) -> None:
        lines = [
            f"violation in {operation}, {moment}: {cause}",
            f"  request: {request or 'none in particular'}",
            f"  numbers: {numbers}",
            f"  active toggles: {toggles_text()}",
        ]
        super().__init__("\n".join(lines))
        self.operation = operation
        self.request = request
        self.numbers = numbers
        self.moment = moment
        self.cause = cause

    def as_json(self) -> dict[str, str | None]:
        """The parts of the message, ready for ``json.dumps``."""
        return {
            "operation": self.operation,
            "request": self.request,
            "numbers": self.numbers,
            "moment": self.moment,
            "cause": self.cause,
        }


def active_toggles() -> list[str]:
    """Ids of the toggles that ``PRTOGGLE`` asks for in this process, in its order."""
    ids = (part.strip() for part in os.environ.get("PRTOGGLE", "").split(","))
    return [toggle_id for toggle_id in ids if toggle_id]


def toggles_text() -> str:
    """The same for a message."""
    return ",".join(active_toggles()) or "none (PRTOGGLE is not set)"


class Guard:
    """Context manager around one call into the stack: any exception becomes a Violation that names the call.

    All kinds of exceptions are caught, because a reverted fix may show as any of them. One instance serves a
    whole run.
    """

    def __init__(self, row_width: int) -> None:
        self._row_width = row_width
        self._operation = ""
        self._reqs: Sequence[Req] = ()
        self.moment = "before the first step"
        """When the next calls happen, for the message."""

    def __call__(self, operation: str, reqs: Sequence[Req]) -> Guard:
        """Name the call that is about to be made and the requests it is made for."""
        self._operation = operation
        self._reqs = reqs
        return self

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not isinstance(error, Exception) or isinstance(error, Violation):
            return
        blamed = _blamed(self._reqs, error)
        named = blamed or list(self._reqs[:_MAX_NAMED])
        numbers = "; ".join(_lengths(req, self._row_width) for req in named)
        if len(self._reqs) > len(named) and not blamed:
            numbers += f"; and {len(self._reqs) - len(named)} more in the batch"
        raise Violation(
            operation=self._operation,
            request=", ".join(_name(req) for req in blamed) or None,
            numbers=numbers or f"row width {self._row_width}",
            moment=self.moment,
            cause=f"{type(error).__name__}: {error}",
        ) from error


def _blamed(reqs: Sequence[Req], error: Exception) -> list[Req]:
    """The requests that the error names, or the only one that was there."""
    if len(reqs) <= 1:
        return list(reqs)
    words = set(re.findall(r"\w+", str(error)))
    return [req for req in reqs if req.rid in words][:_MAX_NAMED]


def _name(req: Req) -> str:
    done = f"{len(req.output_ids)} of {req.max_new_tokens} output tokens"
    return f"{req.rid} ({len(req.origin_input_ids)} prompt tokens, {done})"


def _lengths(req: Req, row_width: int) -> str:
    kv = req.kv
    if kv is None:
        return f"{req.rid} holds no row, row width {row_width}"
    ladder = f"protected {kv.cache_protected_len}, committed {kv.kv_committed_len}"
    return (
        f"{req.rid} row {kv.req_pool_idx}, {ladder}, allocated {kv.kv_allocated_len}, row width {row_width}"
    )
