"""Reads request traces: Mooncake JSONL and Azure CSV, told apart by their content, not by their name."""

from __future__ import annotations

import csv
import json
import sys
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvcore.errors import KVCacheError

if TYPE_CHECKING:
    from collections.abc import Iterator

TRACE_BLOCK = 512
"""Tokens that one hash id of a Mooncake trace stands for."""

SMALL_HASH_ID = 1 << 30
"""Hash ids below this one are kept; larger ones (64-bit hashes, say) are numbered from it in their order."""

AZURE_COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
MOONCAKE_FIELDS = ("timestamp", "input_length", "output_length", "hash_ids")

BUNDLED_TRACE = Path(__file__).parent / "data" / "small_conversation.jsonl"
"""A short trace of our own making, in the Mooncake format; ``make_bundled_trace`` writes it."""


class TraceError(KVCacheError, ValueError):
    """A trace file cannot be read as one of the known formats; says where and what was expected."""

    def __init__(self, path: Path, line: int | None, reason: str) -> None:
        where = f"{path}:{line}" if line is not None else f"{path}"
        super().__init__(f"{where}: {reason}")
        self.path = path
        self.line = line
        self.reason = reason


@dataclass(frozen=True, slots=True)
class TraceRequest:
    """One row of a trace; lengths in tokens."""

    line: int
    """Line of the trace file, from 1."""
    arrival_ms: float
    input_len: int
    output_len: int
    hash_ids: tuple[int, ...] | None
    """One id per started block of ``TRACE_BLOCK`` prompt tokens; ``None`` in formats without them."""


def read_trace(path: Path, limit: int | None = None) -> list[TraceRequest]:
    """All requests of the file (the first ``limit`` of them), ordered by arrival.

    Raises TraceError with file and line for anything that is not a well-formed row, also when the file is
    missing.
    """
    if "\0" in str(path):
        raise TraceError(path, None, "cannot be read: its name holds a NUL character")
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = list(islice(_rows(path, file), limit))
    except OSError as error:
        raise TraceError(path, None, f"cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise TraceError(path, None, f"is not UTF-8 text: {error.reason} at byte {error.start}") from error
    if not lines:
        raise TraceError(path, None, "holds no request")
    return sorted(lines, key=lambda request: request.arrival_ms)


def _rows(path: Path, file: Iterator[str]) -> Iterator[TraceRequest]:
    numbered = ((number, text.strip()) for number, text in enumerate(file, start=1))
    rows = ((number, text) for number, text in numbered if text)
    first = next(rows, None)
    if first is None:
        return
    number, text = first
    if text.startswith("{"):
        large: dict[int, int] = {}
        yield _mooncake_row(path, number, text, large)
        for number, text in rows:
            yield _mooncake_row(path, number, text, large)
    elif text.startswith(AZURE_COLUMNS[0]):
        yield from _azure_rows(path, number, text, rows)
    else:
        expected = (
            f"a JSON object with {', '.join(MOONCAKE_FIELDS)}, or the CSV header {','.join(AZURE_COLUMNS)}"
        )
        raise TraceError(path, number, f"unknown trace format: expected {expected}, found {text[:60]!r}")


def _mooncake_row(path: Path, line: int, text: str, large: dict[int, int]) -> TraceRequest:
    try:
        row = json.loads(text)
    except json.JSONDecodeError as error:
        raise TraceError(path, line, f"not a JSON object: {error.msg} at column {error.colno}") from error
    except (ValueError, RecursionError) as error:
        # A number of thousands of digits, or brackets in brackets without end.
        raise TraceError(path, line, f"not a JSON object that can be read: {error}") from error
    if not isinstance(row, dict):
        raise TraceError(path, line, f"expected a JSON object, found {type(row).__name__}")
    missing = [name for name in MOONCAKE_FIELDS if name not in row]
    if missing:
        raise TraceError(path, line, f"misses the field {missing[0]!r}")
    input_len = _count(path, line, "input_length", row["input_length"])
    hash_ids = row["hash_ids"]
    if not isinstance(hash_ids, list) or not all(type(item) is int and item >= 0 for item in hash_ids):
        raise TraceError(path, line, "'hash_ids' must be a list of integers from 0 on")
    blocks = -(-input_len // TRACE_BLOCK)
    if len(hash_ids) != blocks:
        expected = f"{input_len} prompt tokens are {blocks} blocks of {TRACE_BLOCK}"
        reason = f"{expected}, but there are {len(hash_ids)} hash ids"
        raise TraceError(path, line, reason)
    arrival = _time_ms(path, line, row["timestamp"])
    output_len = _count(path, line, "output_length", row["output_length"])
    return TraceRequest(line, arrival, input_len, output_len, tuple(_small(item, large) for item in hash_ids))


def _small(hash_id: int, large: dict[int, int]) -> int:
    """The id, or a number for one whose blocks' token ids would not fit; the same for the same id."""
    if hash_id < SMALL_HASH_ID:
        return hash_id
    return large.setdefault(hash_id, SMALL_HASH_ID + len(large))


def _count(path: Path, line: int, name: str, value: Any) -> int:
    if type(value) is not int or value < 1:
        raise TraceError(path, line, f"{name!r} must be an integer from 1 on, found {value!r}")
    return value


def _time_ms(path: Path, line: int, value: Any) -> float:
    # Larger integers are no floats.
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= sys.float_info.max:
        raise TraceError(
            path, line, f"'timestamp' must be a number of milliseconds from 0 on, found {value!r}"
        )
    return float(value)


def _azure_rows(
    path: Path, line: int, header: str, rows: Iterator[tuple[int, str]]
) -> Iterator[TraceRequest]:
    if tuple(header.split(",")) != AZURE_COLUMNS:
        raise TraceError(
            path, line, f"expected the CSV header {','.join(AZURE_COLUMNS)}, found {header[:60]!r}"
        )
    start: datetime | None = None
    for number, text in rows:
        try:
            cells = next(csv.reader([text]))
        except csv.Error as error:
            raise TraceError(path, number, f"is no row of a CSV file: {error}") from error
        if len(cells) != len(AZURE_COLUMNS):
            raise TraceError(path, number, f"expected {len(AZURE_COLUMNS)} columns, found {len(cells)}")
        arrival = _parse_timestamp(path, number, cells[0])
        start = start or arrival
        if (arrival.tzinfo is None) != (start.tzinfo is None):
            reason = "'TIMESTAMP' must have a time zone in every row, or in none"
            raise TraceError(path, number, f"{reason}, found {cells[0]!r}")
        since_start = (arrival - start).total_seconds() * 1000.0
        input_len = _count(path, number, AZURE_COLUMNS[1], _to_int(cells[1]))
        output_len = _count(path, number, AZURE_COLUMNS[2], _to_int(cells[2]))
        yield TraceRequest(number, since_start, input_len, output_len, None)


def _to_int(cell: str) -> int | str:
    return int(cell) if cell.isascii() and cell.isdigit() else cell


def _parse_timestamp(path: Path, line: int, cell: str) -> datetime:
    # The traces give seven fractional digits; datetime keeps six.
    whole, _, fraction = cell.partition(".")
    try:
        return datetime.fromisoformat(f"{whole}.{fraction[:6]:0<6}" if fraction else whole)
    except ValueError as error:
        raise TraceError(path, line, f"'TIMESTAMP' must be an ISO date and time, found {cell!r}") from error
