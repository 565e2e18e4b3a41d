"""A search from its first run to its answer: repeats, runs ahead of time, interruption and resumption."""

from __future__ import annotations

import io
import json
import os
import random
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from prtoggle.bisect.answer import Answer
from prtoggle.bisect.command_files import command_digests
from prtoggle.bisect.confidence import confidence, miss_probability
from prtoggle.bisect.conversation import NOTHING
from prtoggle.bisect.hunt import Hunt, Orders
from prtoggle.bisect.json_report import document
from prtoggle.bisect.pools import Ended
from prtoggle.bisect.records import Ledger, RunRecord
from prtoggle.bisect.refusals import BisectError, StaleStateError
from prtoggle.bisect.space import Space
from prtoggle.bisect.state_file import Plan, StateFile
from prtoggle.bisect.verdicts import Rules, Verdict
from prtoggle.cli.bisect_view import print_answer
from prtoggle.spec import Edit, Patch, Toggle

if TYPE_CHECKING:
    from collections.abc import Callable

    from prtoggle.bisect.one_run import Job

PASS, FAIL, UNKNOWN = Verdict.PASS, Verdict.FAIL, Verdict.UNKNOWN
IDS = tuple(f"t{number}" for number in range(60))
PLAN = Plan(("python", "-m", "app"), "/there", 1, None, {"match": ""}, unmask=False, specs={}, sources={})


class Killed(BaseException):
    """The search was ended from outside."""


class FakePool:
    """Runs a function instead of a process; which of the submitted runs ends first is drawn."""

    def __init__(
        self, command: Callable[[frozenset[str]], Verdict], seed: int = 0, last: int = 10**9
    ) -> None:
        self.command = command
        self.random = random.Random(seed)
        self.last = last
        self.waiting: dict[int, Job] = {}
        self.ran: list[frozenset[str]] = []
        self.most = 0
        self.closed = False
        #: The toggles whose module the command loads.
        self.loads = frozenset(IDS)

    def submit(self, number: int, job: Job) -> None:
        assert set(job.specs) == set(job.toggles)
        self.waiting[number] = job
        self.most = max(self.most, len(self.waiting))

    def next_ended(self) -> Ended:
        if len(self.ran) >= self.last:
            raise Killed
        number = self.random.choice(sorted(self.waiting))
        toggles = frozenset(self.waiting.pop(number).toggles)
        self.ran.append(toggles)
        verdict = self.command(toggles)
        loaded = tuple(sorted(toggles & self.loads))
        record = RunRecord(tuple(sorted(toggles)), verdict, "made up", 0, 0.1, loaded=loaded)
        return Ended(number, record)

    def cancel(self, number: int) -> None:
        self.waiting.pop(number, None)

    def close(self) -> None:
        self.closed = True


def toggle(toggle_id: str) -> Toggle:
    return Toggle(toggle_id, (Patch("app.f", (Edit("a = 1", "a = 2"),)),), text=f"id: {toggle_id}")


def hunt(
    pool: FakePool,
    ids: tuple[str, ...] = IDS,
    *,
    repeat: int = 1,
    jobs: int = 1,
    state: StateFile | None = None,
    resumed: bool = False,
) -> Answer:
    space = Space(ids)
    ledger = Ledger(repeat, {NOTHING, *space.tops()})
    for record in state.resume() if state and resumed else ():
        ledger.add(record)
    orders = Orders(("app",), {toggle_id: f"id: {toggle_id}" for toggle_id in ids}, Rules())
    listeners = (state.add,) if state else ()
    finding = Hunt(space, ledger, orders, pool, jobs, listeners=listeners).run()
    return Answer(finding, space, {toggle_id: toggle(toggle_id) for toggle_id in ids}, ledger)


def fails_with(*culprits: str) -> Callable[[frozenset[str]], Verdict]:
    return lambda toggles: FAIL if set(culprits) <= toggles else PASS


def told(answer: Answer) -> tuple[object, ...]:
    """All of an answer that must not depend on how the search got there."""
    return (
        [toggle.id for toggle in answer.cause],
        answer.finding,
        list(answer.finding.asked),
        answer.ends,
        answer.by_hand(("app",)),
    )


@pytest.mark.parametrize("culprits", [("t37",), ("t3", "t41")])
@pytest.mark.parametrize("jobs", [1, 3])
def test_a_search_that_is_killed_after_any_run_ends_with_the_same_answer(
    tmp_path, monkeypatch, culprits, jobs
):
    # Only a loss of power needs it, and it takes most of this test's time.
    monkeypatch.setattr(os, "fsync", lambda _descriptor: None)
    whole = hunt(FakePool(fails_with(*culprits)))
    for runs in range(len(whole.ledger.records) + len(whole.ledger.closings) + 1):
        state = StateFile(tmp_path / f"{runs}.json", PLAN)
        first = FakePool(fails_with(*culprits), seed=runs, last=runs)
        try:
            hunt(first, jobs=jobs, state=state)
        except Killed:
            assert len(first.ran) == runs
        again = StateFile(state.path, PLAN)
        second = FakePool(fails_with(*culprits), seed=runs + 100)
        answer = hunt(second, jobs=jobs, state=again, resumed=runs > 0)
        assert told(answer) == told(whole)
        assert len(again.resume()) == len(answer.ledger.records) + len(answer.ledger.closings)
        if jobs == 1:
            closing = [NOTHING, whole.finding.cause]
            assert first.ran + second.ran == [*whole.finding.asked, *closing], "nothing is run twice"


@given(st.integers(1, 7), st.integers(0, 1000), st.sets(st.sampled_from(IDS), min_size=1, max_size=3))
def test_runs_ahead_of_time_change_neither_the_answer_nor_its_tests(jobs, seed, culprits):
    alone = hunt(FakePool(fails_with(*culprits)))
    pool = FakePool(fails_with(*culprits), seed=seed)
    together = hunt(pool, jobs=jobs)

    assert told(together) == told(alone)
    assert together.count.tests == alone.count.tests <= together.count.runs
    assert pool.most <= jobs
    if jobs == 1:
        assert together.count.runs == alone.count.tests


def test_several_jobs_shorten_the_search():
    class Rounds(FakePool):
        """Runs that were submitted together end together."""

        rounds = 0
        left = 0

        def next_ended(self) -> Ended:
            if not self.left:
                self.rounds += 1
                self.left = len(self.waiting)
            self.left -= 1
            return super().next_ended()

        def cancel(self, number: int) -> None:
            self.left -= number in self.waiting
            super().cancel(number)

    rounds = {}
    for jobs in (1, 3, 7):
        pool = Rounds(fails_with("t37"))
        hunt(pool, jobs=jobs)
        rounds[jobs] = pool.rounds
    assert rounds[1] > rounds[3] > rounds[7]


def flaky(seed: int, culprit: str, rate: float) -> Callable[[frozenset[str]], Verdict]:
    draw = random.Random(seed)
    return lambda toggles: FAIL if culprit in toggles and draw.random() < rate else PASS


@pytest.mark.parametrize(("rate", "repeat"), [(0.3, 12), (0.5, 8), (0.8, 4)])
def test_a_flaky_command_is_answered_rightly_at_least_as_often_as_the_stated_confidence(rate, repeat):
    right, stated = 0, []
    for seed in range(120):
        culprit = IDS[seed % 60]
        answer = hunt(FakePool(flaky(seed, culprit, rate)), repeat=repeat)
        sure = answer.certainty
        if sure is None:
            # The failing end, or the cause after the search, passed every time: that is (1 - rate) ** repeat
            # each, and no cause is named.
            assert answer.outcome in ("agree", "unsteady")
            continue
        stated.append(sure.confidence)
        right += answer.finding.cause == {culprit}

    assert len(stated) >= 110
    assert right / len(stated) >= sum(stated) / len(stated)
    # Not vacuous: the rare command is promised less than the frequent one, and neither nothing.
    assert 0.2 < sum(stated) / len(stated) < 1


@pytest.mark.parametrize(("loads", "outcome"), [((), "unseen"), (("t1",), "unseen"), (("t5",), "cause")])
def test_a_set_that_no_process_reported_in_effect_is_no_cause(loads, outcome):
    pool = FakePool(fails_with("t5"))
    pool.loads = frozenset(loads)
    answer = hunt(pool)
    written = document(answer, ("app",), answer.by_hand(("app",)))

    assert answer.finding.cause == {"t5"}
    assert answer.outcome == written["outcome"] == outcome
    found = outcome == "cause"
    assert [member["id"] for member in written["cause"]] == ["t5"] * found
    assert written["doubted"] == ["t5"] * (not found)
    assert bool(written["by_hand"]) is found


def test_a_cause_is_closed_with_one_run_of_nothing_reverted_and_one_of_itself():
    for culprits in (("t5",), ("t3", "t41")):
        pool = FakePool(fails_with(*culprits))
        answer = hunt(pool)
        assert (answer.outcome, answer.count.closing) == ("cause", 2)
        assert pool.ran == [*answer.finding.asked, NOTHING, answer.finding.cause]
    without = hunt(FakePool(lambda _toggles: PASS))
    assert (without.outcome, without.count.closing) == ("agree", 0)


@pytest.mark.parametrize("ids", [IDS[:count] for count in (1, 2, 3, 6, 60)])
@pytest.mark.parametrize("base", [PASS, FAIL])
def test_a_command_that_changes_its_verdict_by_itself_has_no_cause(ids, base):
    left: list[int] = []
    verdicts = {
        "state": lambda: base.opposite if left else base,
        "alternating": lambda: base.opposite if len(left) % 2 else base,
        "every third": lambda: base.opposite if len(left) % 3 == 1 else base,
        "two of three": lambda: base if len(left) % 3 == 0 else base.opposite,
        "spoilt": lambda: UNKNOWN if len(left) > 9 else base.opposite if left else base,
    }
    for kind, verdict in verdicts.items():
        left.clear()

        def command(_toggles, verdict=verdict):
            said = verdict()
            left.append(1)
            return said

        answer = hunt(FakePool(command), ids)
        assert answer.outcome == "unsteady", kind
        assert not document(answer, ("app",), answer.by_hand(("app",)))["cause"]


def test_a_build_that_fails_now_and_then_as_it_is_may_pass_the_first_closing_runs():
    said = iter([FAIL] * 8 + [PASS] * 7 + [FAIL])
    pool = FakePool(lambda toggles: PASS if toggles else next(said))
    answer = hunt(pool, ("t5",), repeat=8)
    # The last one is of the cause, which has to pass once more.
    assert (answer.outcome, answer.count.closing) == ("cause", 9)
    assert next(said, None) is None


def test_a_cause_that_fails_now_and_then_may_pass_the_first_closing_runs():
    said = iter([PASS, FAIL] + [PASS] * 7 + [FAIL])
    pool = FakePool(lambda toggles: next(said) if toggles else PASS)
    answer = hunt(pool, ("t5",), repeat=8)
    assert answer.outcome == "cause"
    assert answer.count.closing <= 9


@pytest.mark.parametrize("ids", [IDS[:count] for count in (1, 2, 3, 6, 60)])
@pytest.mark.parametrize("offset", range(6))
@pytest.mark.parametrize("period", [2, 3])
def test_no_cause_is_named_where_every_second_or_third_run_changes(ids, offset, period):
    left = [0] * offset

    def command(_toggles):
        left.append(0)
        return FAIL if len(left) % period == 0 else PASS

    answer = hunt(FakePool(command), ids)

    assert answer.outcome != "cause"
    assert answer.count.closing <= 4


@pytest.mark.parametrize("ids", [IDS[:count] for count in (1, 2, 3, 6, 60)])
def test_a_cause_is_named_after_four_closing_runs_at_most(ids):
    for culprit in ids:
        for base in (PASS, FAIL):
            pool = FakePool(lambda toggles, one=culprit, base=base: base.opposite if one in toggles else base)
            answer = hunt(pool, ids)
            assert answer.outcome == "cause"
            assert 2 <= answer.count.closing <= 4


def test_a_set_fails_with_its_first_failing_run_and_passes_after_all(tmp_path):
    outcomes = {"t0": iter([PASS, PASS, FAIL])}
    counts: dict[frozenset[str], int] = {}

    def command(toggles):
        counts[toggles] = counts.get(toggles, 0) + 1
        if toggles == {"t0"}:
            return next(outcomes["t0"], FAIL)
        return FAIL if {"t0", "t1"} == toggles else PASS

    answer = hunt(FakePool(command), ("t0", "t1"), repeat=5)
    assert answer.finding.cause == {"t0"}
    assert answer.count.closing == 2
    assert counts == {NOTHING: 5 + 1, frozenset(("t0", "t1")): 5, frozenset(("t0",)): 3 + 1}
    sure = answer.certainty
    assert sure is not None
    assert (sure.failed, sure.runs, sure.passed) == (5, 5, 1)


def test_no_confidence_is_stated_without_a_cause():
    draw = random.Random(1)
    answer = hunt(FakePool(lambda _toggles: FAIL if draw.random() < 0.5 else PASS), ("t0", "t1"), repeat=8)
    assert answer.outcome == "agree"
    assert answer.certainty is None
    assert document(answer, ("app",), ("", ""))["confidence"] is None


def test_no_confidence_is_stated_for_single_runs():
    assert hunt(FakePool(fails_with("t1"))).certainty is None


def test_the_probability_to_miss_is_the_mean_over_what_the_failing_end_leaves_of_p():
    # Numerically: the mean of (1 - p) ** repeat under the density p ** k * (1 - p) ** (n - k).
    steps = [(index + 0.5) / 20000 for index in range(20000)]
    for failures, runs, repeat in ((5, 10, 10), (10, 10, 10), (1, 8, 8), (3, 4, 6)):
        weights = [p**failures * (1 - p) ** (runs - failures) for p in steps]
        mean = sum(w * (1 - p) ** repeat for w, p in zip(weights, steps, strict=True)) / sum(weights)
        assert miss_probability(failures, runs, repeat) == pytest.approx(mean, rel=1e-3)
    assert confidence(10, 10, 10, 0) == 1
    assert confidence(1, 2, 2, 10**6) == 0


def test_a_run_that_cannot_say_makes_the_set_one_that_cannot_say_unless_one_fails():
    ledger = Ledger(3, ())
    toggles = frozenset(("a",))
    for verdict, expected in ((PASS, None), (UNKNOWN, UNKNOWN), (FAIL, FAIL)):
        ledger.add(RunRecord(("a",), verdict, "", 0, 0.1))
        known = ledger.lookup(toggles)
        assert (known.verdict if known else None) == expected
    assert ledger.missing(toggles) == 0


def test_sets_that_cannot_be_put_into_effect_cost_no_run():
    space = Space(IDS[:8])
    bad = frozenset(("t2", "t3"))
    ledger = Ledger(1, (), lambda toggles: "they clash" if bad <= toggles else "")
    pool = FakePool(fails_with("t6"))
    orders = Orders(("app",), dict.fromkeys(IDS, ""), Rules())
    finding = Hunt(space, ledger, orders, pool).run()

    assert finding.cause == {"t6"}
    assert not [toggles for toggles in pool.ran if bad <= toggles]
    answer = Answer(finding, space, {}, ledger)
    assert set(answer.unresolved.values()) == {"they clash"}
    assert answer.count.tests == len(pool.ran) - answer.count.closing < len(finding.asked)


def test_what_is_wrong_with_a_run_ends_the_search():
    class Broken(FakePool):
        def next_ended(self) -> Ended:
            return Ended(min(self.waiting), None, BisectError("cannot start app"))

    with pytest.raises(BisectError, match="cannot start app"):
        hunt(Broken(fails_with("t1")))


def test_pairs_that_were_never_tested_together_are_named():
    ids = ("t1", "t2", "t3", "t4")
    space = Space(ids, {}, {frozenset(("t1", "t2")), frozenset(("t3", "t4"))})
    answers = {}
    for unmask in (False, True):
        ledger = Ledger(1, {NOTHING, *space.tops()})
        orders = Orders(("app",), dict.fromkeys(ids, ""), Rules())
        finding = Hunt(space, ledger, orders, FakePool(lambda _toggles: PASS), unmask=unmask).run()
        answers[unmask] = Answer(finding, space, {}, ledger)
        assert document(answers[unmask], ("app",), ("", ""))["not_together"] == answers[unmask].not_together
    assert answers[False].not_together == [["t1", "t4"], ["t2", "t3"]]
    assert answers[True].not_together == []
    out = Console(record=True, width=200, file=io.StringIO())
    print_answer(out, answers[False], ("", ""), None)
    text = out.export_text()
    assert "never reverted together, as no far end holds both: t1 and t4, t2 and t3; --unmask tests" in text
    print_answer(out, answers[True], ("", ""), None)
    text = out.export_text()
    assert "none of the sets that were tested changes the verdict" in text
    assert "together" not in text


# The state file


def written(tmp_path: Path, plan: Plan = PLAN) -> StateFile:
    state = StateFile(tmp_path / "state.json", plan)
    hunt(FakePool(fails_with("t5")), state=state)
    return state


def test_the_file_is_whole_after_each_run_and_holds_every_run(tmp_path):
    seen = []

    class Watched(StateFile):
        def add(self, record: RunRecord) -> None:
            super().add(record)
            seen.append(len(json.loads(self.path.read_text())["runs"]))

    state = Watched(tmp_path / "state.json", PLAN)
    answer = hunt(FakePool(fails_with("t5")), state=state)
    assert seen == list(range(1, len(answer.finding.asked) + answer.count.closing + 1))
    assert [path.name for path in tmp_path.iterdir()] == ["state.json"]


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"command": ("python", "-m", "other")}, "command: then python -m app, now python -m other"),
        ({"folder": "/here"}, "folder: then /there, now /here"),
        ({"repeat": 3}, "repeat: then 1, now 3"),
        ({"timeout": 5.0}, "timeout: then None, now 5.0"),
        ({"unmask": True}, "unmask: then False, now True"),
        ({"rules": {"match": "x"}}, "rules: then"),
        ({"specs": {"1": "b", "3": "c"}}, "toggle 2: searched then, not now"),
        ({"specs": {"1": "b", "3": "c"}}, "toggle 3: not searched then"),
        ({"specs": {"1": "b", "2": "b"}}, "toggle 1: another spec now"),
        ({"sources": {"app/core.py": "b"}}, "file app/core.py: another text now"),
        ({"files": {"run.py": "b"}}, "file run.py of the command: another text now"),
        ({"files": {}}, "file run.py of the command: not there now"),
    ],
)
def test_a_file_of_another_search_is_refused_and_stays(tmp_path, changed, named):
    before = replace(PLAN, specs={"1": "a", "2": "b"}, sources={"app/core.py": "a"}, files={"run.py": "a"})
    state = written(tmp_path, before)
    text = state.path.read_bytes()

    with pytest.raises(StaleStateError) as caught:
        StateFile(state.path, replace(before, **changed)).resume()

    assert any(line.startswith(named) for line in caught.value.differences)
    assert named in str(caught.value)
    assert state.path.read_bytes() == text
    assert StateFile(state.path, before).resume()


def test_a_file_that_the_runs_made_stays_out_of_the_question_whenever_it_changes(tmp_path):
    state = written(tmp_path, replace(PLAN, files={"run.py": "a"}))
    for number in range(2):
        again = StateFile(state.path, replace(PLAN, files={"run.py": "a", "results.json": f"{number}"}))
        assert again.resume()
        again.add(RunRecord((), PASS, "", 0, 0.1))


@pytest.mark.parametrize(
    "command",
    [
        ["./run.sh", "--fast"],
        ["python", "run.sh", "more"],
        ["sh", "-c", "cd . && python run.sh '1 in R' >out;true"],
        ["env", "X=1", "tool", "--config=run.sh"],
        ["pytest", "run.sh::test_it"],
        ["python", "-m", "run"],
        ["python", "-m", "kit.run"],
        ["timeout", "5", "python", "-m", "kit"],
    ],
)
def test_an_edit_of_a_file_that_the_command_names_is_another_command(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kit").mkdir()
    made = [tmp_path / name for name in ("run.sh", "run.py", "kit/run.py", "kit/__main__.py", "other.py")]
    for path in made:
        path.write_text("echo 1\n")
    made[0].chmod(0o755)
    before = command_digests([*command, "x" * 5000, "'", "\0"])
    for path in made:
        path.write_text("echo 2\n")
    after = command_digests(command)

    changed = [name for name in before if before[name] != after[name]]
    assert len(changed) == 1
    assert "other.py" not in before


def test_the_program_itself_is_one_of_the_files(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    script = tmp_path / "tool"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    assert list(command_digests(["tool"])) == [str(script)]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"version": 1}', '{"version": 1, "plan": {}, "runs": [{}]}']
)
def test_a_file_that_is_none_of_ours_is_refused_and_stays(tmp_path, text):
    path = tmp_path / "state.json"
    path.write_text(text)
    with pytest.raises(BisectError, match="is not a state file"):
        StateFile(path, PLAN).resume()
    assert path.read_text() == text


@pytest.mark.parametrize("text", ["my notes", "[]", '{"version": 1, "runs": []}', "\xff", " "])
def test_a_file_that_is_none_of_ours_is_not_written_over(tmp_path, text):
    path = tmp_path / "precious.txt"
    path.write_text(text, encoding="latin-1")
    before = path.read_bytes()
    with pytest.raises(BisectError, match=r"precious.txt is not a state file .* name another one"):
        StateFile(path, PLAN).check()
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_state_of_any_search_and_an_empty_file_may_be_written_over(tmp_path):
    StateFile(written(tmp_path).path, replace(PLAN, folder="/here")).check()
    empty = tmp_path / "empty"
    empty.touch()
    StateFile(empty, PLAN).check()
    with pytest.raises(BisectError, match="is not a state file"):
        StateFile(Path(os.devnull), PLAN).check()


def test_a_file_of_another_format_is_refused(tmp_path):
    state = written(tmp_path)
    state.path.write_text(state.path.read_text().replace('"version": 1', '"version": 9', 1))
    with pytest.raises(StaleStateError, match="has format 9"):
        StateFile(state.path, PLAN).resume()


def test_a_file_that_is_not_there_cannot_be_resumed(tmp_path):
    with pytest.raises(BisectError, match=r"cannot be resumed: No such file.*without --resume"):
        StateFile(tmp_path / "none.json", PLAN).resume()
    assert not list(tmp_path.iterdir())


def test_a_place_that_cannot_be_written_is_refused_before_anything_is_run(tmp_path):
    for path in (tmp_path, tmp_path / "no" / "such.json"):
        with pytest.raises(BisectError, match="a file cannot be written there"):
            StateFile(path, PLAN).check()
    assert not list(tmp_path.iterdir())
