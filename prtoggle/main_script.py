"""The program that an interpreter was started with, seen from its start files: before it runs."""

from __future__ import annotations

import ast
import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from prtoggle.errors import ActivationError, TargetModuleError
from prtoggle.target import find_module, locate, split_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from prtoggle.spec import Toggle


#: Programs that compile and run a script which is one of their arguments, and ask no loader for it either.
_PROFILERS: Final = (
    "cProfile",
    "kernprof",
    "memory_profiler",
    "profile",
    "pyinstrument",
    "scalene",
    "viztracer",
)
_RUNNERS: Final = frozenset((*_PROFILERS, "coverage", "debugpy", "pdb", "trace"))
#: How to name one of them a module.
_MODULE: Final = {"coverage": "run -m", "trace": "--module"}


def refuse_script_targets(toggles: Iterable[Toggle]) -> None:
    """Raises ActivationError when the program is `python [-m pdb] FILE`, and FILE holds a target.

    Whoever runs that file compiles it itself; no loader is asked, so nothing could be edited on the way.
    """
    runner = _runner()
    script = _script_of(sys.argv[1:]) if runner else Path(sys.argv[0] if sys.argv else "").resolve()
    if script is None or script.suffix != ".py":  # -m, -c, stdin, a console script
        return
    for toggle in toggles:
        for target in toggle.targets:
            module = _module_defined_in(script, target)
            if module:
                start = f"{runner} {_MODULE.get(runner, '-m')} {module}" if runner else f"python -m {module}"
                raise ActivationError(
                    f"toggle {toggle.id} edits {target}, and {script} is run as a script, which no loader "
                    f"loads: nothing would be reverted in it. Start it as `{start}` instead."
                )


def _runner() -> str:
    """The program that runs a script: `python -m cProfile`, or `coverage` itself; empty for any other."""
    program = sys.argv[0] if sys.argv else ""
    name = _module_that_runs(sys.orig_argv) if program == "-m" else Path(program).name
    return name if name in _RUNNERS else ""


def _script_of(arguments: Sequence[str]) -> Path | None:
    """The first argument that is a Python file, unless a module is named before."""
    for argument in arguments:
        if argument in {"-m", "--module"}:
            return None
        if argument.endswith(".py") and Path(argument).is_file():
            return Path(argument).resolve()
    return None


def refuse_main_module_targets(toggles: Iterable[Toggle]) -> None:
    """Raises ActivationError when the program is `python -m MODULE` and that module holds a target to trace.

    It is never imported, so that nobody tells when its functions are all there.
    """
    module = _module_that_runs(sys.orig_argv)
    if not module:
        return
    for toggle in toggles:
        for target in toggle.targets:
            with contextlib.suppress(TargetModuleError):
                found, _ = split_name(target)
                package = find_module(module)
                is_package = package.path is None or package.path.name == "__init__.py"
                if found.name == (f"{module}.__main__" if is_package else module):
                    raise ActivationError(
                        f"toggle {toggle.id} edits {target}, and that module is the program that "
                        f"`python -m {module}` runs: it is executed, not imported, so that its functions "
                        "cannot be traced. Call it from another module, or use prtoggle run."
                    )


def _module_that_runs(argv: Sequence[str]) -> str:
    """The MODULE of `python [options] -m MODULE`; empty for any other start."""
    arguments = iter(argv[1:])
    for argument in arguments:
        if argument == "--check-hash-based-pycs":
            next(arguments, "")
            continue
        if not argument.startswith("-") or argument == "-":
            return ""
        for at, letter in enumerate(argument[1:], 2):
            if letter == "m":
                return argument[at:] or next(arguments, "")
            if letter == "c":
                return ""
            if letter in "WX":
                # The rest, or the next argument, is the option's value.
                if not argument[at:]:
                    next(arguments, "")
                break
    return ""


def _module_defined_in(script: Path, target: str) -> str:
    """The prefix of `target` that is the module in the file `script`, if that defines the rest; else ""."""
    names = tuple(target.replace(":", ".").split("."))
    parts = script.with_suffix("").parts
    for count in range(len(names), 0, -1):
        module, rest = names[:count], ".".join(names[count:])
        if parts[-count:] != module and parts[-count - 1 :] != (*module, "__init__"):
            continue
        with contextlib.suppress(SyntaxError, OSError):
            if not rest or locate(ast.parse(script.read_bytes()), rest):
                return ".".join(module)
    return ""


def _working_directory() -> str:
    with contextlib.suppress(FileNotFoundError):
        return str(Path.cwd())
    return ""


@contextlib.contextmanager
def program_folder_on_path() -> Iterator[None]:
    """Puts in front of `sys.path` what the interpreter puts there after the start files have run.

    Otherwise an installed copy would be found for a module that the program takes from its own folder.
    """
    script = sys.argv[0] if sys.argv else ""
    folder = (
        str(Path(script).resolve().parent) if script not in {"", "-", "-c", "-m"} else _working_directory()
    )
    if sys.flags.safe_path or not folder or folder in sys.path[:1]:
        yield
        return
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)
