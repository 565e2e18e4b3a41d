from __future__ import annotations

from kvcore.req import Req
from kvcore.simulate.trace import TraceRequest
from kvcore.simulate.waiting import WaitingQueue

REQUESTS = [TraceRequest(line, 10.0 * line, 5, 5, None) for line in (1, 2, 3)]


class Maker:
    def __init__(self) -> None:
        self.lines: list[int] = []

    def __call__(self, request: TraceRequest) -> Req:
        self.lines.append(request.line)
        return Req(f"r{request.line}", [1])


def test_requests_come_in_when_their_time_has_come() -> None:
    queue = WaitingQueue(REQUESTS, Maker())

    assert (len(queue), queue.next_arrival_ms, queue.head()) == (0, 10.0, None)

    queue.arrive_until(20.0)

    assert (len(queue), queue.next_arrival_ms) == (2, 30.0)

    queue.arrive_until(99.0)

    assert (len(queue), queue.next_arrival_ms) == (3, None)


def test_token_ids_are_made_at_the_head_and_once() -> None:
    maker = Maker()
    queue = WaitingQueue(REQUESTS, maker)
    queue.arrive_until(99.0)

    assert maker.lines == []
    assert queue.head() is queue.head()
    assert maker.lines == [1]
    assert [queue.pop().rid, len(queue)] == ["r1", 2]


def test_who_is_sent_back_stands_in_front_in_order() -> None:
    queue = WaitingQueue(REQUESTS, Maker())
    queue.arrive_until(99.0)
    queue.head()
    queue.send_back([Req("a", [1]), Req("b", [1])])

    order = []
    while queue.head() is not None:
        order.append(queue.pop().rid)

    assert order == ["a", "b", "r1", "r2", "r3"]
