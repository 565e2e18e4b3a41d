"""One run of a command: how its end becomes a verdict, and that nothing of it is left."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from prtoggle.bisect.one_run import Job, run_job
from prtoggle.bisect.pools import LocalPool
from prtoggle.bisect.refusals import BisectError
from prtoggle.bisect.verdicts import Ending, Rules, Verdict, checked_rules
from prtoggle.process_group import ProcessGroup
from tests.prtoggle.programs import MODULE, ROOT, SPECS, Project

PASS, FAIL, UNKNOWN = Verdict.PASS, Verdict.FAIL, Verdict.UNKNOWN


@pytest.fixture
def project(tmp_path, monkeypatch):
    made = Project(tmp_path / "project")
    monkeypatch.chdir(made.root)
    monkeypatch.setenv("PYTHONPATH", f"{made.root}{os.pathsep}{ROOT}")
    for name in [name for name in os.environ if name.startswith("PRTOGGLE")]:
        monkeypatch.delenv(name)
    return made


def run(*command: str, toggles: tuple[str, ...] = (), **options):
    specs = {toggle_id: f"id: {toggle_id}\n" + dedented(SPECS[f"{toggle_id}.yaml"]) for toggle_id in toggles}
    return run_job(Job(command, toggles, specs, **options))


def dedented(text: str) -> str:
    return "\n".join(line.removeprefix(" " * 8) for line in text.splitlines())


@pytest.mark.parametrize(
    ("status", "verdict", "how"),
    [
        (0, PASS, "status 0"),
        (1, FAIL, "status 1"),
        (2, FAIL, "status 2"),
        (124, FAIL, "status 124"),
        (125, UNKNOWN, "status 125"),
        (126, UNKNOWN, "status 126"),
        (127, UNKNOWN, "status 127"),
        (-signal.SIGSEGV, FAIL, "SIGSEGV"),
        (-signal.SIGABRT, FAIL, "SIGABRT"),
        (128 + signal.SIGSEGV, FAIL, "SIGSEGV"),
        (-signal.SIGKILL, UNKNOWN, "SIGKILL"),
        (128 + signal.SIGKILL, UNKNOWN, "SIGKILL"),
        (-signal.SIGTERM, UNKNOWN, "SIGTERM"),
        (255, FAIL, "status 255"),
    ],
)
def test_the_conventions_of_exit_statuses(status, verdict, how):
    assert Rules().judge(Ending(status)) == (verdict, how)


@pytest.mark.parametrize(
    ("rules", "ending", "verdict"),
    [
        (Rules(fail_on=("125",)), Ending(125), FAIL),
        (Rules(skip_on=("3",)), Ending(3), UNKNOWN),
        (Rules(), Ending(0, timed_out=True), UNKNOWN),
        (Rules(fail_on=("timeout",)), Ending(-15, timed_out=True), FAIL),
        (Rules(fail_on=("signal",)), Ending(-9), FAIL),
        (Rules(skip_on=("signal",)), Ending(-11), UNKNOWN),
        (Rules(skip_on=("139",)), Ending(139), UNKNOWN),
        (Rules("Over.low"), Ending(0, "RowOverflow: 12"), FAIL),
        (Rules("Overflow"), Ending(1, "another failure"), PASS),
        (Rules("^Row"), Ending(1, "first\nRowOverflow"), FAIL),
        (Rules("Overflow"), Ending(125, "RowOverflow"), UNKNOWN),
        (Rules("Overflow"), Ending(-11, "RowOverflow"), FAIL),
        (Rules("Overflow"), Ending(0, "Overflow", failures=("toggle 1: no",)), UNKNOWN),
        (Rules(fail_on=("2",)), Ending(2, failures=("toggle 1: no",)), UNKNOWN),
    ],
)
def test_rules_beside_the_conventions(rules, ending, verdict):
    assert rules.judge(ending)[0] is verdict


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("(", "", ""), r"--match \(: no regular expression"),
        (("", "0", ""), "--fail-on 0: an ending is a status from 1 to 255"),
        (("", "", "crash"), "--skip-on crash: an ending is"),
        (("", "3,4", "4"), "4 stands in --fail-on and in --skip-on"),
    ],
)
def test_wrong_rules_are_refused(options, message):
    with pytest.raises(BisectError, match=message):
        checked_rules(*options)


def test_rules_are_read_from_comma_lists():
    assert checked_rules("x", "timeout, 3,3", "signal") == Rules("x", ("timeout", "3"), ("signal",))


def test_a_run_reverts_its_toggles_and_tells_what_was_reached(project):
    code = "import app.core; print('answer', app.core.answer())"
    fixed = run(sys.executable, "-c", code)
    reverted = run(sys.executable, "-c", code, toggles=("1", "2"))

    assert (fixed.last_line, fixed.toggles, fixed.processes, fixed.reached) == ("answer 42", (), 0, ())
    assert (reverted.last_line, reverted.toggles) == ("answer 41", ("1", "2"))
    assert (reverted.reached, reverted.loaded, reverted.processes) == (("1",), ("1", "2"), 1)
    assert fixed.verdict is reverted.verdict is PASS


def test_a_toggle_that_sets_a_variable_is_in_effect_in_a_process_that_loads_none_of_its_code(project):
    text = 'id: setting\nenv: {A_SETTING: "off"}\n' + dedented(SPECS["1.yaml"])
    code = "import os, sys; sys.exit(os.environ.get('A_SETTING') == 'off')"
    done = run_job(Job((sys.executable, "-c", code), ("setting",), {"setting": text}))
    assert (done.verdict, done.loaded, done.reached) == (FAIL, ("setting",), ())


def test_a_run_reads_its_own_catalogue_and_not_the_projects(project):
    project.write({"toggles/1.yaml": "this: is no spec"})
    assert run(sys.executable, "-m", "app", toggles=("1",)).last_line == "41"


def test_a_toggle_that_fails_to_apply_cannot_say_whatever_the_command_makes_of_it(project):
    project.write({"app/core.py": MODULE.replace("    value += 1\n", "")})
    record = run("bash", "-c", f"{sys.executable} -m app; exit 0", toggles=("2", "1"))

    assert (record.verdict, record.status, record.blamed) == (UNKNOWN, 0, ("1",))
    assert "a toggle could not be put into effect: " in record.how
    assert "app.core.answer" in record.how


def test_a_process_that_could_neither_revert_nor_report_cannot_say_either(project):
    project.write({"app/core.py": "def answer():\n    return 42\n"})
    record = run("bash", "-c", f"PRTOGGLE_REPORT= {sys.executable} -m app", toggles=("1",))

    assert (record.verdict, record.status, record.processes) == (UNKNOWN, 2, 0)
    assert "app.core.answer" in record.how


def test_what_was_set_in_our_own_environment_does_not_reach_a_run(project, monkeypatch):
    monkeypatch.setenv("PRTOGGLE_REPORT", "/no/such/folder")
    record = run(sys.executable, "-m", "app", toggles=("1",))
    assert (record.processes, record.last_line) == (1, "41")
    assert "PRTOGGLE_REPORT" in os.environ


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def gone_soon(pid: int) -> bool:
    for _ in range(100):
        if not alive(pid):
            return True
        time.sleep(0.05)
    return False


def test_a_time_limit_ends_the_whole_process_group(tmp_path):
    pid = tmp_path / "pid"
    started = time.monotonic()
    record = run("bash", "-c", f"sleep 100 & echo $! > {pid}; echo on; wait", timeout=0.5)

    assert (record.verdict, record.how, record.last_line) == (UNKNOWN, "time limit", "on")
    assert time.monotonic() - started < 60
    assert gone_soon(int(pid.read_text()))


def test_a_command_that_ignores_the_request_to_end_is_killed(monkeypatch):
    monkeypatch.setattr("prtoggle.process_group.GRACE_SECONDS", 0.2)
    record = run("bash", "-c", "trap '' TERM; while true; do sleep 0.1; done", timeout=0.5)
    assert (record.status, record.how) == (-signal.SIGKILL, "time limit")


def test_what_a_command_leaves_running_is_ended(tmp_path):
    pid = tmp_path / "pid"
    record = run("bash", "-c", f"sleep 100 & echo $! > {pid}")
    assert record.verdict is PASS
    assert gone_soon(int(pid.read_text()))


def test_a_command_has_no_standard_input():
    assert run("cat").status == 0


def test_a_command_that_is_not_there_is_no_verdict():
    with pytest.raises(BisectError, match="cannot start no-such-command: No such file"):
        run("no-such-command")


def test_the_output_is_kept_on_request_and_its_telling_line_always(tmp_path):
    text = "\033[31mstart\033[0m\n\nValueError: \033[1mbad\033[0m\n  rows: 3\n────┘\n"
    log = tmp_path / "run.log"
    record = run(sys.executable, "-c", f"print({text!r}, end=''); raise SystemExit(1)", log=str(log))
    assert record.last_line == "ValueError: bad"
    assert log.read_text() == text


def test_a_match_is_looked_for_in_all_of_a_long_output():
    code = "print('needle'); print('x' * 99, *range(30000), sep='\\n')"
    found = run(sys.executable, "-c", code, rules=Rules("^needle"))
    assert (found.verdict, found.last_line) == (FAIL, "29999")
    assert run(sys.executable, "-c", code, rules=Rules("^noodle")).verdict is PASS


def test_a_cancelled_run_ends_at_once(tmp_path):
    for early in (True, False):
        group = ProcessGroup()
        if early:
            group.cancel()
        else:
            threading.Timer(0.3, group.cancel).start()
        record = run_job(Job(("sleep", "100"), (), {}), group)
        assert record.status == -signal.SIGKILL


def test_a_pool_runs_side_by_side_and_leaves_nothing_behind(tmp_path):
    before = threading.active_count()
    pool = LocalPool()
    wait = f"until test -e {tmp_path}/go; do sleep 0.02; done"
    pool.submit(1, Job(("bash", "-c", wait), (), {}))
    pool.submit(2, Job(("bash", "-c", f"touch {tmp_path}/go"), (), {}))
    pool.submit(3, Job(("sleep", "100"), (), {}))
    pool.submit(4, Job(("no-such-command",), (), {}))
    ended = [pool.next_ended() for _ in range(3)]
    pool.cancel(3)
    last = pool.next_ended()

    assert {item.number for item in ended} == {1, 2, 4}
    assert [item.record.verdict for item in ended if item.record] == [PASS, PASS]
    assert [type(item.error) for item in ended if item.error] == [BisectError]
    assert (last.number, last.record and last.record.status) == (3, -signal.SIGKILL)

    pool.submit(5, Job(("sleep", "100"), (), {}))
    pool.close()
    assert threading.active_count() == before
