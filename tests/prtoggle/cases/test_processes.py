"""Children of a process that reverted through the API, and programs whose script is the target's module."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.prtoggle.cases.moments import live

if TYPE_CHECKING:
    from tests.prtoggle.cases.moments import World

__all__ = ["live"]

ROOT = Path(__file__).parents[3]
START = f"""\
import os, sys, threading
sys.path[:0] = [{str(ROOT)!r}]
import prtoggle
from tests.prtoggle.cases.moments import patch, toggle
"""
CASE = "def f(x):\n    y = x + 1\n    return y\n"


def run(world: World, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", *arguments],
        cwd=world.folder, capture_output=True, text=True, check=False, timeout=100,
    )  # fmt: skip
    assert done.stderr == ""
    return done.stdout


def test_a_fork_in_the_middle_of_another_threads_flips_sees_no_half_of_one(live: World) -> None:
    """A child's own revert is in effect, whatever the other thread was about to do."""
    live.write(
        {
            "case.py": CASE,
            "main.py": START
            + """
import case
wanted = toggle(patch("case.f", "y = x + 1", "y = x + 100"))
with prtoggle.reverted(wanted):
    pass
stop = threading.Event()
def flip():
    while not stop.is_set():
        with prtoggle.reverted(wanted):
            pass
threads = [threading.Thread(target=flip) for _ in range(2)]
[thread.start() for thread in threads]
failed = 0
for _ in range(40):
    child = os.fork()
    if not child:
        with prtoggle.reverted(wanted):
            os._exit(0 if case.f(1) == 101 else 3)
    failed += os.waitpid(child, 0)[1] != 0
stop.set()
[thread.join() for thread in threads]
print("failed", failed, case.f(1))
""",
        }
    )
    assert run(live, "main.py") == "failed 0 2\n"


@pytest.mark.parametrize("arguments", [("app.py",), ("-m", "app")], ids=["script", "module"])
def test_both_copies_of_a_program_that_imports_itself_are_reverted(
    live: World, arguments: tuple[str, ...]
) -> None:
    live.write(
        {
            "app.py": START
            + CASE
            + """
if __name__ == "__main__":
    import app
    with prtoggle.reverted(toggle(patch("app.f", "y = x + 1", "y = x + 100"))):
        print(f(1), app.f(1))
    with prtoggle.reverted(toggle(patch("__main__.f", "y = x + 1", "y = x + 100"))):
        print(f(1), app.f(1))
    print(f(1), app.f(1))
"""
        }
    )
    assert run(live, *arguments) == "101 101\n101 2\n2 2\n"


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_children_by_multiprocessing(live: World, method: str) -> None:
    """A forked child has what its parent reverted; the others start anew, and read the environment."""
    live.write(
        {
            "case.py": CASE,
            "main.py": START
            + f"""
import multiprocessing, case
def ask(queue):
    queue.put(case.f(1))
if __name__ == "__main__":
    context = multiprocessing.get_context({method!r})
    queue = context.Queue()
    with prtoggle.reverted(toggle(patch("case.f", "y = x + 1", "y = x + 100"))):
        child = context.Process(target=ask, args=(queue,))
        child.start()
        print(queue.get(timeout=60), case.f(1))
        child.join()
""",
        }
    )
    assert run(live, "main.py") == ("101 101\n" if method == "fork" else "2 101\n")


def test_a_call_in_flight_in_a_thread_ends_on_its_code(live: World) -> None:
    import threading

    import prtoggle
    from tests.prtoggle.cases.moments import patch, toggle

    live.write(
        {
            "case.py": """
            import threading
            inside, go = threading.Event(), threading.Event()
            def f(x):
                inside.set()
                go.wait(10)
                return x + 1
            def gen():
                for i in range(3):
                    yield i + 1
            async def agen():
                for i in range(3):
                    yield i + 1
            """
        }
    )
    module = live.load()
    got: list[int] = []
    thread = threading.Thread(target=lambda: got.append(module.f(1)))
    thread.start()
    module.inside.wait(10)
    running, arunning = module.gen(), module.agen()
    assert next(running) == 1
    with prtoggle.reverted(
        toggle(
            patch("case.f", "return x + 1", "return x + 100"),
            patch("case.gen", "yield i + 1", "yield i + 100"),
            patch("case.agen", "yield i + 1", "yield i + 100"),
        )
    ):
        module.go.set()
        thread.join(10)
        assert (got, module.f(1), list(running), list(module.gen())) == ([2], 101, [2, 3], [100, 101, 102])
        # A generator that has not begun runs what it was made with, too.
        with pytest.raises(StopIteration) as stopped:
            anext(arunning).send(None)
        assert stopped.value.value == 1
    assert (module.f(1), list(module.gen())) == (2, [1, 2, 3])
