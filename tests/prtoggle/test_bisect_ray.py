"""Runs on a Ray cluster: a local one, started for this test, into which the project has to travel."""

from __future__ import annotations

import shutil
import sys
import time
from importlib import metadata

import pytest

from prtoggle.bisect.one_run import Job
from prtoggle.bisect.refusals import BisectError
from prtoggle.bisect.verdicts import Verdict
from prtoggle.cli import main
from tests.prtoggle.test_bisect_runs import gone_soon
from tests.prtoggle.toggle_history import IDS, answer_of, make_project, spec_text

PACKAGE = "bsr_project"


def test_without_ray_one_is_told_how_to_install_it(tmp_path, monkeypatch, capsys):
    make_project(tmp_path / "project", PACKAGE)
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.syspath_prepend(tmp_path / "project")
    monkeypatch.setitem(sys.modules, "ray", None)
    status = main(["bisect", "--executor", "ray", "--", "python", "-m", PACKAGE, str(tmp_path / "log")])

    assert status == 2
    assert "pip install 'prtoggle[ray]'" in capsys.readouterr().err
    assert not (tmp_path / "log").exists()
    assert not (tmp_path / "project" / ".prtoggle-bisect.json").exists()


@pytest.fixture
def project(tmp_path, monkeypatch):
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'prtoggle[ray]'")
    root = tmp_path / "project"
    make_project(root, PACKAGE)
    monkeypatch.chdir(root)
    monkeypatch.syspath_prepend(root)
    monkeypatch.setenv("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
    return root


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_a_search_on_ray_finds_what_a_local_one_does(project, tmp_path, capsys):
    log = tmp_path / "log"
    options = ["--toggles", ",".join(IDS[:8]), "--json", str(tmp_path / "answer.json")]
    # The relative path of the state is here; the program runs in Ray's copy of the folder.
    command = [sys.executable, "-m", PACKAGE, str(log), "1003", "1006"]
    status = main(["bisect", "--executor", "ray", "-j", "2", *options, "--", *command])
    on_ray = answer_of(tmp_path / "answer.json")

    assert status == 0, capsys.readouterr().err
    assert [member["id"] for member in on_ray["cause"]] == ["1003", "1006"]
    assert main(["bisect", *options, "--", *command]) == 0
    here = answer_of(tmp_path / "answer.json")
    assert (here["cause"], here["tests"], here["ends"]) == (on_ray["cause"], on_ray["tests"], on_ray["ends"])
    assert all(run["processes"] for run in on_ray["table"] if run["toggles"])


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_specs_and_files_travel_and_runs_are_cancelled(project, tmp_path):
    from prtoggle.bisect.ray_pool import RayPool

    pool = RayPool(project)
    try:
        # Neither the folder nor its catalogue is there any more for who looks at the old place.
        shutil.rmtree(project / "toggles")
        code = f"import os, {PACKAGE}.part0 as part; print(part.fix_1000(1), os.getcwd())"
        pool.submit(1, Job((sys.executable, "-c", code), ("1000",), {"1000": spec_text(PACKAGE, 0)}))
        ended = pool.next_ended()
        assert ended.record is not None, ended.error
        answer, _, folder = ended.record.last_line.partition(" ")
        assert (answer, ended.record.verdict, ended.record.reached) == ("1", Verdict.PASS, ("1000",))
        assert folder != str(project)

        mark = tmp_path / "mark"
        pool.submit(2, Job(("bash", "-c", f"echo $$ > {mark}; exec sleep 100"), (), {}))
        while not mark.exists() or not mark.read_text().strip():
            time.sleep(0.1)
        pool.cancel(2)
        assert pool.next_ended().record is None
        assert gone_soon(int(mark.read_text()))

        pool.submit(3, Job(("no-such-command",), (), {}))
        error = pool.next_ended().error
        assert isinstance(error, BisectError)
        assert "cannot start no-such-command" in str(error)
    finally:
        pool.close()


def test_a_worker_with_another_version_is_refused(monkeypatch):
    from prtoggle.bisect import ray_pool

    with pytest.raises(BisectError, match=r"a Ray worker has prtoggle .* install the same everywhere"):
        ray_pool.run_remotely({}, f"{metadata.version('prtoggle')}.other")
