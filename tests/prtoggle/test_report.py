"""The JSON lines that a process leaves behind."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from prtoggle import report
from prtoggle.disk_caches import caches_on


def test_each_event_is_there_at_once_with_who_and_when(tmp_path: Path) -> None:
    reporter = report.Reporter(str(tmp_path))
    reporter.write("armed", toggle="1", target="a.b", odd={1})

    (file,) = tmp_path.iterdir()
    start, armed = (json.loads(line) for line in file.read_text().splitlines())
    assert (start["version"], start["event"], start["pid"], start["ppid"]) == (
        1,
        "start",
        os.getpid(),
        os.getppid(),
    )
    assert (armed["version"], armed["event"], armed["toggle"], armed["target"]) == (1, "armed", "1", "a.b")
    assert armed["time"] >= start["time"]
    assert armed["odd"] == "{1}", "what JSON does not know is shown, and never stops the program"


def test_no_descriptor_is_kept_open(tmp_path: Path) -> None:
    before = sorted(Path("/proc/self/fd").iterdir())
    report.Reporter(str(tmp_path)).write("armed", toggle="1", target="a.b")

    assert sorted(Path("/proc/self/fd").iterdir()) == before


def test_a_folder_that_is_gone_does_not_disturb_the_program(tmp_path: Path) -> None:
    folder = tmp_path / "reports"
    folder.mkdir()
    reporter = report.Reporter(str(folder))
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()

    reporter.write("armed", toggle="1", target="a.b")

    assert not folder.exists()


def test_processes_are_read_in_the_order_of_their_starts(tmp_path: Path) -> None:
    for pid, time in ((7, 2.0), (8, 1.0)):
        start = {
            "event": "start",
            "time": time,
            "pid": pid,
            "ppid": 1,
            "argv": ["x"],
            "rank": None,
            "local_rank": None,
            "forked": False,
        }
        (tmp_path / f"{pid}.jsonl").write_text(json.dumps(start) + "\n")

    assert [process.pid for process in report.read(tmp_path)] == [8, 7]


def test_a_line_that_was_cut_short_is_left_out(tmp_path: Path) -> None:
    report.Reporter(str(tmp_path)).write("armed", toggle="1", target="a.b")
    (file,) = tmp_path.iterdir()
    file.write_text(file.read_text() + '{"event": "activ')

    (process,) = report.read(tmp_path)
    assert [event["event"] for event in process.events] == ["armed"]
    assert process.names("armed", "1", "a.b")
    assert not process.names("activated", "1", "a.b")


@pytest.mark.parametrize(
    ("environ", "modules", "names"),
    [
        ({}, set(), []),
        ({}, {"triton"}, ["Triton, ~/.triton/cache"]),
        ({"TRITON_CACHE_DIR": "/c"}, {"triton"}, ["Triton, /c"]),
        ({"TRITON_ALWAYS_COMPILE": "1"}, {"triton"}, []),
        ({"TORCHINDUCTOR_CACHE_DIR": "/i"}, {"torch._inductor"}, ["TorchInductor, /i"]),
        ({"TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"}, {"torch._inductor"}, []),
    ],
)
def test_caches_on_disk_are_named_when_they_are_on(
    environ: dict[str, str], modules: set[str], names: list[str]
) -> None:
    assert [cache.partition(" (off")[0] for cache in caches_on(environ, modules)] == names
