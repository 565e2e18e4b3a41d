"""`prtoggle bisect` with real processes: the answer, what it cost, interruption, and wrong use."""

from __future__ import annotations

import io
import math
import os
import signal
import subprocess
import sys
import time

import pytest
from rich.console import Console

from prtoggle.bisect.answer import Answer
from prtoggle.bisect.candidates import choose, gather
from prtoggle.bisect.conversation import NOTHING, Finding, Known
from prtoggle.bisect.json_report import document
from prtoggle.bisect.range_toggles import commits_between
from prtoggle.bisect.records import Ledger, RunRecord
from prtoggle.bisect.refusals import BisectError
from prtoggle.bisect.verdicts import Verdict
from prtoggle.catalog import Catalog
from prtoggle.cli import main
from prtoggle.cli.bisect_view import print_answer
from prtoggle.forge.git_history import Repository
from tests.prtoggle.programs import ROOT, heed_signals
from tests.prtoggle.toggle_history import (
    COMMITS,
    IDS,
    answer_of,
    make_history,
    make_project,
    runs_of,
    spec_text,
)

PACKAGE = "bsx_project"


class Search:
    """Runs `prtoggle bisect` in a project, for the program of the history."""

    def __init__(self, root, scratch) -> None:
        self.root = root
        self.log = scratch / "log"
        self.state = scratch / "state.json"
        self.json = scratch / "answer.json"

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", PACKAGE, str(self.log), *words]

    def arguments(self, options: tuple[str, ...], command: list[str]) -> list[str]:
        files = ("--state", str(self.state), "--json", str(self.json))
        return [sys.executable, "-m", "prtoggle", "bisect", *files, *options, "--", *command]

    @property
    def environ(self) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("PRTOGGLE")}
        return {**inherited, "PYTHONPATH": str(ROOT), "COLUMNS": "200"}

    def __call__(self, *options: str, command: list[str], **variables: str):
        return subprocess.run(
            self.arguments(options, command),
            cwd=self.root,
            env={**self.environ, **variables},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def answer(self) -> dict[str, object]:
        return answer_of(self.json)

    @property
    def ids(self) -> list[str]:
        return [member["id"] for member in self.answer()["cause"]]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    made = tmp_path_factory.mktemp("bisect") / "project"
    make_project(made, PACKAGE)
    return made


@pytest.fixture
def search(root, tmp_path):
    """A search in a project whose files may not change by it."""

    def snapshot():
        return {
            path: path.read_bytes() for path in root.rglob("*") if path.is_file() and path.suffix != ".pyc"
        }

    before = snapshot()
    yield Search(root, tmp_path)
    assert snapshot() == before


def test_one_cause_of_sixty_is_found_within_the_bound(search):
    done = search(command=search.command("1037"))
    answer = search.answer()

    assert done.returncode == 0, done.stderr
    assert (answer["version"], answer["outcome"], search.ids) == (1, "cause", ["1037"])
    assert answer["located"] <= math.log2(60) + 3
    assert answer["bound"] == round(math.log2(60) + 3, 2)
    assert answer["tests"] == answer["runs"] == runs_of(search.log) - 2 <= answer["located"] + 1
    assert answer["closing"] == 2
    assert answer["ends"][0] == {"reverted": [], "verdict": "passes"}
    assert (len(answer["ends"][1]["reverted"]), answer["ends"][1]["verdict"]) == (60, "fails")
    assert answer["cause"][0]["without"] == "passes"
    assert answer["symptom"] == "NeedsFixes: the command does not work"
    assert "cause: one fix; the command passes as it is, and fails without it" in done.stdout
    assert "1037  Fix number 37" in done.stdout
    assert "links: owner/project#1037" in done.stdout
    assert done.stderr.count("reverted: ") == runs_of(search.log)


def test_the_two_commands_show_it_by_hand(search):
    search("--toggles", "1037", command=search.command("1037"))
    fixed, reverted = search.answer()["by_hand"]
    environ = search.environ
    statuses = [
        subprocess.run(["bash", "-c", line], cwd=search.root, env=environ, check=False, capture_output=True)
        for line in (fixed, reverted)
    ]
    assert [done.returncode for done in statuses] == [0, 1]
    assert reverted.startswith("PRTOGGLE=1037 ")


def test_a_failing_build_is_searched_for_the_change_that_broke_it(search):
    done = search("--toggles", ",".join(IDS[1:5]), command=search.command("--broken", "1004"))

    assert done.returncode == 0, done.stderr
    assert search.ids == ["1004"]
    assert [end["verdict"] for end in search.answer()["ends"]] == ["fails", "passes"]
    assert "the command fails as it is, and passes without it" in done.stdout


def test_a_pair_is_found_by_several_jobs_and_each_member_is_needed(search):
    done = search("-j", "2", command=search.command("1003", "1041"))
    answer = search.answer()

    assert done.returncode == 0, done.stderr
    assert search.ids == ["1003", "1041"]
    assert [member["without"] for member in answer["cause"]] == ["passes", "passes"]
    assert answer["tests"] <= 22
    assert answer["tests"] <= answer["runs"] <= runs_of(search.log)
    assert "each of them is needed" in done.stdout


def test_a_flaky_command_is_repeated_and_the_confidence_is_stated(search):
    done = search(*("--toggles", "1003,1004", "--repeat", "6"), command=search.command("--sometimes", "1004"))
    answer = search.answer()

    assert done.returncode == 0, done.stderr
    assert search.ids == ["1004"]
    assert 0.9 < answer["confidence"] < 1
    assert "confidence " in done.stdout
    assert answer["runs"] == runs_of(search.log) - answer["closing"] > answer["tests"]


def test_a_search_that_is_killed_goes_on_and_ends_with_the_same_answer(search):
    options = ("--toggles", ",".join(IDS[20:28]))
    search(*options, command=search.command("1020", "1021"))
    whole, runs = search.answer(), runs_of(search.log)
    search.json.unlink()
    search.log.unlink()
    process = subprocess.Popen(
        search.arguments(options, search.command("1020", "1021")),
        cwd=search.root,
        env=search.environ,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while runs_of(search.log) < 4:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    held = len(answer_of(search.state)["runs"])
    assert 1 <= held <= 4
    done = search(*options, "--resume", command=search.command("1020", "1021"))
    resumed = search.answer()

    assert done.returncode == 0, done.stderr
    assert f"; {held} run" in done.stderr
    for answer in (whole, resumed):
        for run in answer["table"]:
            del run["seconds"]
    assert resumed == whole
    assert runs <= runs_of(search.log) <= runs + 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP])
def test_an_interruption_ends_the_runs_and_prints_the_command_that_goes_on(search, tmp_path, number):
    pids = tmp_path / "pids"
    command = ["bash", "-c", f"echo $$ >> {pids}; test -z $PRTOGGLE || exec sleep 100"]
    options = ("--toggles", "1001,1002", "--fail-on", "3")
    process = subprocess.Popen(
        search.arguments(options, command),
        cwd=search.root,
        env=search.environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_signals,  # noqa: PLW1509
    )
    while runs_of(pids) < 2:
        time.sleep(0.02)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)

    assert (process.returncode, out) == (130, "")
    assert "stopped after 1 run. Go on with" in err
    assert "prtoggle bisect --toggles 1001,1002 --fail-on 3 --state " in err
    assert " --resume -- bash -c " in err
    assert len(answer_of(search.state)["runs"]) == 1
    assert not search.json.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(int(pids.read_text().split()[1]), 0)


def test_ends_that_agree_are_told_with_what_it_may_mean(search):
    done = search("--toggles", "1001,1002", command=search.command("1050"))

    assert done.returncode == 1, done.stderr
    assert (search.answer()["outcome"], search.answer()["cause"]) == ("agree", [])
    assert "no cause: the command passes with nothing reverted, and with all reverted" in done.stdout
    assert "--unmask" in done.stdout
    assert "2 of 2 toggles had their code run by the command" in done.stdout
    assert runs_of(search.log) == 2


def test_a_command_that_reverts_nothing_is_told_so(search):
    done = search("--toggles", "1001", command=["bash", "-c", "exit 0"])
    assert done.returncode == 1
    assert "no process of the command reported to prtoggle" in done.stdout


def test_a_command_that_looks_at_the_variable_only_has_no_cause(search):
    done = search("--toggles", "1001", command=["sh", "-c", 'test -z "$PRTOGGLE"'])
    assert done.returncode == 1, done.stderr
    assert "cause: one fix" not in done.stdout
    assert (
        "no cause: the command passes as it is, and fails with 1001 reverted, but no process" in done.stdout
    )
    assert (search.answer()["outcome"], search.answer()["cause"]) == ("unseen", [])


def test_a_command_that_leaves_something_behind_has_no_cause(search, tmp_path):
    code = f"import {PACKAGE}.part0, pathlib; f = pathlib.Path({str(tmp_path / 'left')!r}); assert not f.exists(), 'left'; f.touch()"
    done = search("--toggles", "1000", command=[sys.executable, "-c", code])
    assert done.returncode == 1, done.stderr
    assert "no cause: nothing reverted, the command passes at first; after the search: fails" in done.stdout
    assert "so the runs that led to 1000 tell nothing" in done.stdout
    assert (search.answer()["outcome"], search.answer()["doubted"]) == ("unsteady", ["1000"])


def test_a_masked_cause_is_found_on_request(search):
    # Without fix 1003 it fails, unless fix 1009 is out as well.
    code = f"import sys, {PACKAGE}.part3 as part; sys.exit(part.fix_1003(1) == 1 and part.fix_1009(1) == 2)"
    command = [sys.executable, "-c", code]
    assert search("--toggles", "1003,1009", command=command).returncode == 1
    assert search("--toggles", "1003,1009", "--unmask", command=command).returncode == 0
    assert search.ids == ["1003"]


def test_runs_that_take_too_long_cannot_say_and_are_searched_around(search):
    code = f"import sys, time, {PACKAGE}.part1 as part; part.fix_1001(1) == 1 and time.sleep(100); sys.exit(part.fix_1007(1) == 1)"
    done = search("--toggles", "1001,1007", "--timeout", "6", command=[sys.executable, "-c", code])

    assert done.returncode == 0, done.stderr
    assert search.ids == ["1007"]
    # The smallest set tells why the other one could not say either.
    assert (
        done.stdout.count("cannot say: ") == done.stdout.count("cannot say: 1001 reverted: time limit") == 1
    )
    assert search.answer()["unresolved"] == [
        {"reverted": ["1001", "1007"], "reason": "time limit"},
        {"reverted": ["1001"], "reason": "time limit"},
    ]


def test_a_match_tells_one_failure_from_another(search):
    code = f"import {PACKAGE}.part0 as part; assert part.fix_1000(1) == 2, 'first'; assert part.fix_1006(1) == 2, 'second'"
    done = search(
        *("--toggles", "1000,1006", "--except", "1000", "--match", "second"),
        command=[sys.executable, "-c", code],
    )
    assert done.returncode == 0
    assert search.ids == ["1006"]
    assert search.answer()["searched"] == ["1006"]


def test_what_a_toggle_requires_comes_with_it_and_conflicts_are_kept_apart(search, tmp_path):
    catalogue = tmp_path / "catalogue"
    catalogue.mkdir()
    # 1001 requires 1000; 1002 and 2 want the same line; 1003 does not fit.
    for number, more in ((0, ""), (1, "requires: [1000]\n"), (2, ""), (3, "")):
        text = spec_text(PACKAGE, number).replace("patches:", f"{more}patches:")
        (catalogue / f"{1000 + number}.yaml").write_text(text)
    (catalogue / "2.yaml").write_text((catalogue / "1002.yaml").read_text().replace("id: 1002", "id: 2"))
    broken = catalogue / "1003.yaml"
    broken.write_text(broken.read_text().replace("value + 1", "value + 7"))
    logged = {"PRTOGGLE_PATH": str(catalogue)}
    done = search("--toggles", "1001,1002,2", command=search.command("1002"), **logged)

    assert done.returncode == 0, done.stderr
    assert "with what they require: 1000" in done.stderr
    assert "not all can be reverted together: the far end is 2 sets, of 3, 3" in done.stderr
    ran = [set(line.split(",")) for line in search.log.read_text().splitlines()]
    assert not [toggles for toggles in ran if {"1002", "2"} <= toggles]
    assert all("1000" in toggles for toggles in ran if "1001" in toggles)
    assert search.ids == ["1002"]

    # 1001 alone is the cause; 1000 is out with it because it has to be.
    alone = search("--toggles", "1001,1002", command=search.command("1001"), **logged)
    assert alone.returncode == 0, alone.stderr
    assert "cause: one fix, with 1 that it requires; the command passes as it is" in alone.stdout
    assert "required by: 1001" in alone.stdout
    assert "whether it matters is not known" in alone.stdout
    assert "is needed" not in alone.stdout
    assert [(one["id"], one["required_by"]) for one in search.answer()["cause"]] == [
        ("1000", ["1001"]),
        ("1001", []),
    ]

    refused = search("--toggles", "1003,1002", command=search.command("1002"), **logged)
    assert refused.returncode == 2
    assert "1003: " in refused.stderr
    left = search("--toggles", "all,1002", command=search.command("1002"), **logged)
    assert left.returncode == 0, left.stderr
    assert "not searched: 1003: " in left.stdout
    assert [item["id"] for item in search.answer()["left_out"]] == ["1003"]


WRONG = {
    "an unknown tag": (("--toggles", "tag:sizing"), "no toggle has the tag 'sizing'; there are no tags"),
    "an unknown id": (("--toggles", "1060"), "there is no toggle 1060 in"),
    "an id that is none": (("--toggles", "10 60"), "is not a toggle id"),
    "an unknown tag to leave out": (("--except", "tag:sizing"), "no toggle has the tag 'sizing'"),
    "nothing to search": (("--toggles", "1001", "--except", "1001"), "leaves no toggle to search"),
    "an empty list": (("--toggles", ","), "leaves no toggle to search"),
    "an unknown exception": (("--except", "1060"), "there is no toggle 1060 in"),
    "a wrong pattern": (("--match", "("), "no regular expression"),
    "a wrong ending": (("--skip-on", "crash"), "--skip-on crash: an ending is"),
    "bad without good": (("--bad", "HEAD"), "--bad needs --good"),
    "good and toggles": (("--good", "HEAD", "--toggles", "1001"), "leave --toggles and --except out"),
    "no repository": (("--good", "HEAD"), "git rev-parse in"),
    "no runs": (("--repeat", "0"), "Invalid value for '--repeat'"),
    "no time": (("--timeout", "0"), "Invalid value for '--timeout'"),
    "no number": (("--timeout", "nan"), "nan is no finite number"),
    "logs elsewhere": (("--executor", "ray", "--logs", "logs"), "--logs cannot be kept on other machines"),
    "no place for the answer": (("--json", "none/answer.json"), "there is no folder none"),
    "nothing to resume": (("--resume",), "No such file or directory. Start without --resume."),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_use_runs_nothing_and_changes_nothing(search, case, monkeypatch, capsys):
    options, message = WRONG[case]
    monkeypatch.chdir(search.root)
    monkeypatch.syspath_prepend(search.root)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(search.root.parent))
    for name in [name for name in os.environ if name.startswith("PRTOGGLE")]:
        monkeypatch.delenv(name)
    status = main(search.arguments(options, search.command("1001"))[3:])
    told = capsys.readouterr()

    assert (status, told.out) == (2, "")
    assert message in " ".join(told.err.split())
    assert not search.log.exists()
    assert not search.state.exists()
    assert not search.json.exists()


def test_a_command_that_is_not_there_is_wrong_use(search):
    done = search(command=["no-such-command"])
    assert (done.returncode, done.stdout) == (2, "")
    assert "cannot start no-such-command: there is no such command; nothing was run" in done.stderr
    assert not search.state.exists()


def test_toggles_of_the_environment_are_wrong_use(search):
    done = search(command=search.command("1001"), PRTOGGLE="1001")
    assert done.returncode == 2
    assert "PRTOGGLE=1001 is set: bisect decides what is reverted in each run" in done.stderr
    assert not search.log.exists()


def test_a_state_of_another_search_is_refused_and_without_resume_written_over(search):
    search("--toggles", "1001", command=search.command("1001"))
    before = search.state.read_bytes()
    search.json.unlink()
    runs = runs_of(search.log)
    done = search("--toggles", "1001,1003", "--resume", command=search.command("1001", "1002"))

    assert (done.returncode, done.stdout) == (2, "")
    assert "toggle 1003: not searched then" in done.stderr
    assert "command: then " in done.stderr
    assert (search.state.read_bytes(), runs_of(search.log)) == (before, runs)
    assert not search.json.exists()
    again = search("--toggles", "1001", command=search.command("1001"))
    assert (again.returncode, runs_of(search.log)) == (0, 2 * runs)


def test_outputs_are_kept_on_request(search, tmp_path):
    search("--toggles", "1002", "--logs", str(tmp_path / "logs"), command=search.command("1002"))
    logs = sorted((tmp_path / "logs").iterdir())
    assert [path.name for path in logs] == [f"run-{number:03}.log" for number in range(1, len(logs) + 1)]
    assert len(logs) == search.answer()["runs"] + search.answer()["closing"]
    assert "NeedsFixes" in logs[1].read_text()


def test_a_tag_chooses_what_is_searched_and_what_is_not(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "bsx_tagged.py").write_text("def f():\n    return 1\n")
    catalogue = tmp_path / "toggles"
    catalogue.mkdir()
    for number, tags in enumerate(("[a]", "[a, b]", "[b]")):
        edits = "[{match: return 1, replacement: return 2}]"
        text = f"tags: {tags}\npatches: [{{target: bsx_tagged.f, edits: {edits}}}]\n"
        (catalogue / f"t{number}.yaml").write_text(text)
    catalog = Catalog.discover(tmp_path, {"PRTOGGLE_PATH": str(catalogue)})

    def searched(selection: str, excluded: list[str]) -> set[str]:
        toggles = {toggle.id for toggle in catalog.project_toggles()}
        assert toggles == {"t0", "t1", "t2"}
        return set(choose(catalog, selection, excluded).toggles)

    assert searched("all", ["tag:b"]) == {"t0"}
    assert searched("tag:a", ["t1"]) == {"t0"}
    assert searched("all", ["tag:b", "t1"]) == {"t0"}
    with pytest.raises(BisectError, match="no toggle has the tag 'c'"):
        searched("all", ["tag:c"])


# A range of commits


@pytest.fixture(scope="module")
def history(tmp_path_factory):
    made = tmp_path_factory.mktemp("range") / "repository"
    return made, make_history(made, PACKAGE)


def test_a_range_of_200_commits_is_searched_without_a_catalogue(history, tmp_path):
    root, others = history
    search = Search(root, tmp_path)
    done = search("--good", "good", "--bad", "main", command=search.command("--broken", "1007"))
    answer = search.answer()

    assert done.returncode == 0, done.stderr
    assert search.ids == ["1007"]
    assert set(answer["searched"]) == set(IDS)
    assert answer["located"] <= math.log2(60) + 3
    assert answer["runs"] == runs_of(search.log) - 2 <= answer["located"] + 1
    assert [commit["subject"] for commit in answer["commits_left_out"]] == others
    assert all(commit["reason"] for commit in answer["commits_left_out"])
    sha = answer["cause"][0]["commit"]
    git = ["git", "-C", str(root)]
    subject = subprocess.run(
        [*git, "show", "-s", "--format=%s", sha], capture_output=True, text=True, check=True
    )
    assert subject.stdout == "Fix number 7 (#1007)\n"
    assert f"commit: {sha[:12]}" in done.stdout
    assert "not searched: " in done.stdout
    statuses = [
        subprocess.run(["bash", "-c", line], cwd=root, env=search.environ, check=False, capture_output=True)
        for line in answer["by_hand"]
    ]
    assert [done.returncode for done in statuses] == [1, 0]
    status = subprocess.run([*git, "status", "--porcelain"], capture_output=True, text=True, check=True)
    assert status.stdout == ""


def test_what_stays_in_force_of_a_commit_is_told_as_not_searched_in_full(tmp_path, monkeypatch):
    root = tmp_path / "repository"
    (root / "bsx_part").mkdir(parents=True)
    environ = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a"}
    for name, value in {**environ, "GIT_COMMITTER_EMAIL": "a@b"}.items():
        monkeypatch.setenv(name, value)

    def git(*words: str) -> None:
        subprocess.run(["git", "-C", str(root), *words], check=True, capture_output=True)

    def commit(subject: str, **modules: str) -> None:
        for name, text in modules.items():
            (root / "bsx_part" / f"{name}.py").write_text(text)
        git("add", "-A")
        git("commit", "-qm", subject)

    code = "def f(x):\n    return x\n\n\ndef g(x):\n    return x\n"
    git("init", "-q", "-b", "main")
    commit("Begin", __init__="", m=code)
    git("tag", "good")
    code = code.replace("return x\n\n", "return x + 1\n\n")
    commit("Add a plug (#1)", plug="print()\n", m=code)
    commit("Change g (#2)", m=code.replace("(x):\n    return x\n", "(x):\n    return x + 2\n"))
    commits = commits_between(Repository(root), "good", "HEAD", ("python", "-m", "app"))

    assert list(commits.toggles) == ["1", "2"]
    assert [(item.subject, item.reason) for item in commits.partly] == [
        ("Add a plug (#1)", "stays in force: the module bsx_part/plug.py")
    ]
    monkeypatch.syspath_prepend(root)
    candidates = gather(commits.toggles)
    ledger = Ledger(1, ())
    ledger.add(RunRecord((), Verdict.UNKNOWN, "status 125", 125, 0.1))
    known = Known(Verdict.UNKNOWN)
    answer = Answer(Finding("unjudged", {NOTHING: known}), candidates.space, candidates.toggles, ledger)
    out = Console(record=True, width=200, file=io.StringIO())
    print_answer(out, answer, ("", ""), commits)
    sha = commits.shas["1"]
    told = f"not searched in full: {sha[:9]} Add a plug (#1): stays in force: the module bsx_part/plug.py"
    assert told in out.export_text()
    assert [
        item["commit"] for item in document(answer, (), ("", ""), commits)["commits_searched_in_part"]
    ] == [sha]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--good", "main~3", "--bad", "main~1"), "the bad build itself is searched, so check it out first"),
        (("--good", "nothing"), "'nothing' names no single commit of"),
        (("--good", "main"), "there is no commit between main and HEAD"),
    ],
)
def test_a_range_that_cannot_be_searched_is_refused(history, tmp_path, options, message):
    search = Search(history[0], tmp_path)
    done = search(*options, command=search.command("1001"))
    assert (done.returncode, done.stdout) == (2, "")
    assert message in " ".join(done.stderr.split())
    assert not search.log.exists()
    assert not search.state.exists()


def test_a_range_without_a_toggle_is_refused_with_the_reasons(history, tmp_path):
    root, others = history
    git = ["git", "-C", str(root)]
    work = tmp_path / "work"
    first = f"main~{COMMITS - 2}"
    subprocess.run([*git, "worktree", "add", "-q", "--detach", str(work), first], check=True)
    try:
        search = Search(work, tmp_path)
        done = search("--good", "HEAD~1", command=search.command("1001"))
        assert done.returncode == 2
        assert "no commit between HEAD~1 and HEAD can be a toggle" in done.stderr
        assert others[0] in done.stderr
    finally:
        subprocess.run([*git, "worktree", "remove", "--force", str(work)], check=True)
