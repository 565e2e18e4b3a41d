"""The program that an interpreter was started with, seen from its start files: before it runs."""

from __future__ import annotations

import ast
import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from prtoggle.errors import ActivationError
from prtoggle.target import locate

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from prtoggle.spec import Toggle


def refuse_script_targets(toggles: Iterable[Toggle]) -> None:
    """Raises ActivationError when the program is `python FILE` and FILE holds a target.

    The interpreter compiles that file itself; no loader is asked, so nothing could be edited on the way.
    """
    script = Path(sys.argv[0] if sys.argv else "").resolve()
    if script.suffix != ".py":  # -m, -c, stdin, a console script
        return
    for toggle in toggles:
        for target in toggle.targets:
            module = _module_defined_in(script, target)
            if module:
                raise ActivationError(
                    f"toggle {toggle.id} edits {target}, and {script} is run as a script, which no loader "
                    f"loads: nothing would be reverted in it. Start it as `python -m {module}` instead."
                )


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
