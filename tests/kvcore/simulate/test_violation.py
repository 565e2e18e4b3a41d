from __future__ import annotations

import pytest

from kvcore.errors import RowOverflow
from kvcore.req import Req, ReqKvInfo
from kvcore.simulate.violation import Guard, Violation


def make_reqs(count: int) -> list[Req]:
    return [
        Req(f"r{i}", [1, 2, 3], kv=ReqKvInfo(i, kv_committed_len=10 * i, kv_allocated_len=16 * i))
        for i in range(1, count + 1)
    ]


def caught_from(reqs: list[Req], error: Exception) -> Violation:
    guard = Guard(row_width=64)
    guard.moment = "step 12"
    with pytest.raises(Violation) as caught, guard("prepare_for_decode", reqs):
        raise error
    return caught.value


def test_the_message_names_request_operation_numbers_and_toggles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRTOGGLE", "26972,31616")
    violation = caught_from(make_reqs(3), RowOverflow("request r2 would fill 80 columns"))

    assert str(violation).splitlines() == [
        "violation in prepare_for_decode, step 12: RowOverflow: request r2 would fill 80 columns",
        "  request: r2 (3 prompt tokens, 0 of 128 output tokens)",
        "  numbers: r2 row 2, protected 0, committed 20, allocated 32, row width 64",
        "  active toggles: 26972,31616",
    ]
    assert isinstance(violation.__cause__, RowOverflow)


def test_without_toggles_the_message_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PRTOGGLE", raising=False)

    assert str(caught_from(make_reqs(1), ValueError("x"))).endswith(
        "active toggles: none (PRTOGGLE is not set)"
    )


def test_a_single_request_is_named_even_if_the_error_does_not() -> None:
    assert caught_from(make_reqs(1), AttributeError("no such thing")).request == (
        "r1 (3 prompt tokens, 0 of 128 output tokens)"
    )


def test_a_batch_that_no_error_splits_is_listed_in_part() -> None:
    violation = caught_from(make_reqs(9), AssertionError("pages are lost"))

    assert violation.request is None
    assert violation.numbers.startswith("r1 row 1, ")
    assert violation.numbers.endswith("; and 5 more in the batch")


def test_a_request_without_a_row_has_no_lengths() -> None:
    violation = caught_from([Req("r9", [1])], ValueError("x"))

    assert violation.numbers == "r9 holds no row, row width 64"


def test_violations_and_interrupts_pass_unchanged() -> None:
    guard = Guard(row_width=64)
    first = caught_from(make_reqs(1), ValueError("x"))
    with pytest.raises(Violation) as caught, guard("outer", []):
        raise first
    with pytest.raises(KeyboardInterrupt), guard("outer", []):
        raise KeyboardInterrupt

    assert caught.value is first
