"""`PRTOGGLE` travels to every child process, and each reports for itself."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from prtoggle import report
from tests.prtoggle.programs import Project

if TYPE_CHECKING:
    from pathlib import Path

WORKER = """\
    def work(queue):
        from app.core import answer
        queue.put(answer())
    """
PARENT = """\
    import multiprocessing
    import sys

    from app.worker import work

    if __name__ == "__main__":
        context = multiprocessing.get_context(sys.argv[1])
        queue = context.Queue()
        child = context.Process(target=work, args=(queue,))
        child.start()
        print(queue.get(timeout=60))
        child.join()
    """


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "project")


def test_the_process_itself_runs_the_reverted_code(project: Project) -> None:
    fixed, reverted = project.python("-m", "app"), project.python("-m", "app", toggles="1")

    assert (fixed.stdout, fixed.returncode, fixed.stderr) == ("42\n", 0, "")
    assert (reverted.stdout, reverted.returncode, reverted.stderr) == ("41\n", 0, "")
    assert project.states() == ["activated"]


def test_several_toggles_are_reverted_together(project: Project) -> None:
    done = project.python("-c", "from app.core import *; print(answer(), other())", toggles="1,2")

    assert (done.stdout, done.stderr) == ("41 old\n", "")
    assert project.states("2", "app.core.other") == ["activated"]


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_children_of_multiprocessing_are_reverted(project: Project, method: str) -> None:
    project.write({"app/worker.py": WORKER, "app/parent.py": PARENT})

    done = project.python("-m", "app.parent", method, toggles="1")

    assert (done.stdout, done.returncode, done.stderr) == ("41\n", 0, "")
    # The parent never loads the target; resource trackers and the fork server do not either.
    assert project.states()[0] == "armed"
    assert project.states().count("activated") == 1


def test_a_child_forked_after_the_load_reports_what_it_inherited(project: Project) -> None:
    script = """\
        import os
        from app.core import answer
        if os.fork():
            os.wait()
        else:
            print(answer(), flush=True)
            os._exit(0)
        """
    project.write({"app/forks.py": script})

    done = project.python("-m", "app.forks", toggles="1")

    assert done.stdout == "41\n"
    assert project.states() == ["activated", "activated"]
    assert [process.forked for process in report.read(project.reports)] == [False, True]


def test_a_child_of_a_shell_script_in_another_folder_is_reverted(project: Project, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    project.write({"start.sh": f"cd {elsewhere}\n{sys.executable} -m app\n"})
    code = "import subprocess; subprocess.run(['sh', 'start.sh'], check=True)"

    done = project.python("-c", code, toggles="1")

    assert (done.stdout, done.returncode, done.stderr) == ("41\n", 0, "")
    assert project.states() == ["armed", "activated"]


def test_a_relative_catalogue_path_holds_for_a_child_in_another_folder(
    project: Project, tmp_path: Path
) -> None:
    (project.root / "pyproject.toml").unlink()
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-m', 'app'], cwd={str(tmp_path)!r}, check=True)"

    done = project.python("-c", code, toggles="1", variables={"PRTOGGLE_PATH": "toggles"})

    assert (done.stdout, done.returncode, done.stderr) == ("41\n", 0, "")


def test_a_child_of_a_child_is_reverted(project: Project) -> None:
    inner = "import subprocess, sys; subprocess.run([sys.executable, '-m', 'app'], check=True)"
    outer = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {inner!r}], check=True)"

    done = project.python("-c", outer, toggles="1")

    assert done.stdout == "41\n"
    assert project.states() == ["armed", "armed", "activated"]


def test_a_process_that_never_loads_the_target_is_armed_and_no_failure(project: Project) -> None:
    done = project.python("-c", "print('ran')", toggles="1")

    assert (done.stdout, done.returncode, done.stderr) == ("ran\n", 0, "")
    assert project.states() == ["armed"]


@pytest.mark.slow
def test_both_ranks_of_torchrun_are_reverted_and_named(project: Project) -> None:
    pytest.importorskip("torch")
    script = """\
        import torch
        import torch.distributed as dist
        from app.core import answer
        dist.init_process_group("gloo")
        total = torch.tensor(answer())
        dist.all_reduce(total)
        if dist.get_rank() == 0:
            print(int(total))
        dist.destroy_process_group()
        """
    project.write({"app/train.py": script})
    command = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "app.train"]

    done = project.python(
        *command, toggles="1", variables={"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    )

    assert (done.stdout, done.returncode) == ("82\n", 0), done.stderr
    ranks = {
        process.rank: process.names("activated", "1", "app.core.answer")
        for process in report.read(project.reports)
        if process.rank is not None
    }
    assert ranks == {"0": True, "1": True}


def test_the_report_says_who_each_process_is(project: Project) -> None:
    project.python("-m", "app", toggles="1", variables={"RANK": "3", "LOCAL_RANK": "1"})

    (process,) = report.read(project.reports)
    assert process.argv[1:] == ("-m", "app")
    assert (process.rank, process.local_rank, process.forked) == ("3", "1", False)


def test_a_start_file_that_is_read_twice_activates_once(project: Project) -> None:
    code = "import _prtoggle_start; _prtoggle_start.start(); import app.core; print(app.core.answer())"

    done = project.python("-c", code, toggles="1")

    assert (done.stdout, done.stderr) == ("41\n", "")
    assert project.states() == ["activated"]


def test_a_package_in_the_working_directory_wins_over_an_installed_one(
    project: Project, tmp_path: Path
) -> None:
    newer = {
        "newer/app/__init__.py": "",
        "newer/app/core.py": "def answer():\n    value = 0\n    value += 1\n    return value\n",
        "newer/app/__main__.py": "from app.core import answer\nprint(answer())\n",
    }
    project.write(newer)

    done = project.python("-m", "app", toggles="1", cwd=project.root / "newer")

    assert (done.stdout, done.stderr) == ("0\n", "")


def test_a_module_that_comes_from_another_file_than_expected_is_reverted(project: Project) -> None:
    # At start-up the package is found in the project; the program then puts another folder in front.
    other = "def answer():\n    value = 0\n    value += 1\n    return value\n"
    project.write({"shadow/app/__init__.py": "", "shadow/app/core.py": other})
    code = "import sys; sys.path.insert(0, 'shadow'); from app.core import answer; print(answer())"

    done = project.python("-c", code, toggles="1")

    assert (done.stdout, done.stderr) == ("0\n", "")


def test_a_target_in_the_module_that_m_runs_is_reverted(project: Project) -> None:
    project.write({"app/tool.py": "def f():\n    return 1\n\n\nif __name__ == '__main__':\n    print(f())\n"})
    spec = "patches: [{target: app.tool.f, edits: [{match: return 1, replacement: return 2}]}]\n"
    (project.root / "toggles/3.yaml").write_text(spec)

    assert project.python("-m", "app.tool").stdout == "1\n"
    assert project.python("-m", "app.tool", toggles="3").stdout == "2\n"
    (process,) = [
        process for process in report.read(project.reports) if process.names("loaded", "3", "app.tool.f")
    ]
    assert process.names("reached", "3", "app.tool.f")
