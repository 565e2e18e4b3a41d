from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from kvcore.simulate.make_bundled_trace import bundled_text
from kvcore.simulate.trace import (
    BUNDLED_TRACE,
    SMALL_HASH_ID,
    TRACE_BLOCK,
    TraceError,
    TraceRequest,
    read_trace,
)

if TYPE_CHECKING:
    from pathlib import Path

MOONCAKE_ROW = {"timestamp": 0, "input_length": 700, "output_length": 5, "hash_ids": [3, 4]}
AZURE_HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens"


def write(tmp_path: Path, *rows: object, name: str = "trace.txt") -> Path:
    path = tmp_path / name
    text = "\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows)
    path.write_text(text + "\n", encoding="utf-8")
    return path


def test_mooncake_rows_are_recognised_by_content(tmp_path: Path) -> None:
    path = write(tmp_path, MOONCAKE_ROW, {**MOONCAKE_ROW, "timestamp": 12}, name="trace.csv")

    requests = read_trace(path)

    assert requests == [TraceRequest(1, 0.0, 700, 5, (3, 4)), TraceRequest(2, 12.0, 700, 5, (3, 4))]


def test_azure_rows_are_recognised_by_content_and_start_at_zero(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        AZURE_HEADER,
        "2023-11-16 18:15:46.6805900,374,44",
        "2023-11-16 18:15:48.1805999,396,109",
        name="trace.jsonl",
    )

    requests = read_trace(path)

    assert requests == [
        TraceRequest(2, 0.0, 374, 44, None),
        TraceRequest(3, pytest.approx(1500.009), 396, 109, None),
    ]


def test_rows_come_in_the_order_of_arrival_and_empty_lines_count_as_lines(tmp_path: Path) -> None:
    path = write(tmp_path, {**MOONCAKE_ROW, "timestamp": 9}, "", {**MOONCAKE_ROW, "timestamp": 1})

    assert [(r.line, r.arrival_ms) for r in read_trace(path)] == [(3, 1.0), (1, 9.0)]


def test_limit_stops_reading_before_a_broken_row(tmp_path: Path) -> None:
    path = write(tmp_path, MOONCAKE_ROW, MOONCAKE_ROW, "{")

    assert len(read_trace(path, limit=2)) == 2
    with pytest.raises(TraceError, match=r"trace\.txt:3: not a JSON object"):
        read_trace(path)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"timestamp": 0}, "misses the field 'input_length'"),
        ({**MOONCAKE_ROW, "input_length": 0}, "'input_length' must be an integer from 1 on, found 0"),
        ({**MOONCAKE_ROW, "output_length": 2.5}, "'output_length' must be an integer from 1 on, found 2.5"),
        ({**MOONCAKE_ROW, "output_length": True}, "'output_length' must be an integer"),
        ({**MOONCAKE_ROW, "timestamp": -1}, "'timestamp' must be a number of milliseconds"),
        ({**MOONCAKE_ROW, "timestamp": "now"}, "'timestamp' must be a number of milliseconds"),
        (
            {**MOONCAKE_ROW, "hash_ids": [1]},
            "700 prompt tokens are 2 blocks of 512, but there are 1 hash ids",
        ),
        ({**MOONCAKE_ROW, "hash_ids": [1, -2]}, "'hash_ids' must be a list of integers from 0 on"),
        ({**MOONCAKE_ROW, "hash_ids": 7}, "'hash_ids' must be a list"),
        ({**MOONCAKE_ROW, "timestamp": 10**400}, "'timestamp' must be a number of milliseconds"),
        ("{broken", "not a JSON object: .* at column 2"),
        ("[" * 200_000, "not a JSON object that can be read: "),
        ('{"timestamp": ' + "9" * 5000 + "}", "not a JSON object that can be read: "),
        ("[1, 2]", "expected a JSON object, found list"),
    ],
)
def test_a_wrong_mooncake_row_is_named_with_file_and_line(tmp_path: Path, row: object, reason: str) -> None:
    path = write(tmp_path, MOONCAKE_ROW, row)

    with pytest.raises(TraceError, match=rf"trace\.txt:2: {reason}") as caught:
        read_trace(path)

    assert (caught.value.path, caught.value.line) == (path, 2)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("2023-11-16 18:15:46.68,374", "expected 3 columns, found 2"),
        ("yesterday,374,44", "'TIMESTAMP' must be an ISO date and time, found 'yesterday'"),
        ("2023-11-16 18:15:46.68,many,44", "'ContextTokens' must be an integer from 1 on, found 'many'"),
        ("2023-11-16 18:15:46.68,374,-4", "'GeneratedTokens' must be an integer from 1 on, found '-4'"),
        (f"2023-11-16 18:15:46.68,{'1' * 200_000},4", "is no row of a CSV file: field larger than"),
        ("2023-11-16 18:15:46.68,374,0", "'GeneratedTokens' must be an integer from 1 on, found 0"),
    ],
)
def test_a_wrong_azure_row_is_named_with_file_and_line(tmp_path: Path, row: str, reason: str) -> None:
    path = write(tmp_path, AZURE_HEADER, row)

    with pytest.raises(TraceError, match=rf"trace\.txt:2: {reason}"):
        read_trace(path)


def test_times_with_and_without_a_zone_do_not_go_together(tmp_path: Path) -> None:
    path = write(tmp_path, AZURE_HEADER, "2023-11-16 18:15:46.68,374,44", "2023-11-16T18:15:47+00:00,3,4")

    with pytest.raises(
        TraceError, match=r"trace\.txt:3: 'TIMESTAMP' must have a time zone in every row, or in none"
    ):
        read_trace(path)


def test_hashes_of_64_bits_keep_what_they_share(tmp_path: Path) -> None:
    small, large, other = 1, 2**63 + 5, 2**54
    rows = [{**MOONCAKE_ROW, "hash_ids": ids} for ids in ([large, other], [small, large], [large, 2])]
    ids = [request.hash_ids for request in read_trace(write(tmp_path, *rows))]

    assert ids == [(SMALL_HASH_ID, SMALL_HASH_ID + 1), (1, SMALL_HASH_ID), (SMALL_HASH_ID, 2)]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "holds no request"),
        (AZURE_HEADER + "\n", "holds no request"),
        ("hello\n", "1: unknown trace format: expected a JSON object with .*, found 'hello'"),
        ("TIMESTAMP,Tokens\n1,2\n", "1: expected the CSV header TIMESTAMP,ContextTokens,GeneratedTokens"),
    ],
)
def test_a_file_that_is_no_trace_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "trace.txt"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(TraceError, match=reason):
        read_trace(path)


def test_a_missing_file_and_a_binary_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"nowhere\.jsonl: cannot be read: No such file"):
        read_trace(tmp_path / "nowhere.jsonl")
    with pytest.raises(TraceError, match="its name holds a NUL character"):
        read_trace(tmp_path / "a\0b")
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe\x00{")
    with pytest.raises(TraceError, match="is not UTF-8 text"):
        read_trace(binary)


def test_the_bundled_trace_is_what_its_script_writes() -> None:
    assert BUNDLED_TRACE.read_text(encoding="utf-8") == bundled_text()


def test_the_bundled_trace_shares_prefixes_and_reaches_the_default_context() -> None:
    requests = read_trace(BUNDLED_TRACE)

    seen: set[int] = set()
    again = sum(h in seen or bool(seen.add(h)) for r in requests for h in r.hash_ids or ())
    assert 60 <= len(requests) <= 200
    assert again > 100
    assert sum(r.input_len + r.output_len > 4096 for r in requests) >= 5
    assert min(r.input_len for r in requests) < TRACE_BLOCK < max(r.input_len for r in requests)
