"""Builds modules on disk and hand-made variants of their functions, for tests of what follows a function."""

from __future__ import annotations

import importlib.util
import itertools
import linecache
import sys
from typing import TYPE_CHECKING

from prtoggle.installers.base import Variant

if TYPE_CHECKING:
    from pathlib import Path
    from types import CodeType, FunctionType, ModuleType

_serial = itertools.count()


def make_module(folder: Path, text: str) -> ModuleType:
    """Writes `text` under a fresh name and imports it; the caller removes it from `sys.modules`."""
    name = f"kernels_{next(_serial)}"
    path = folder / f"{name}.py"
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def make_variant(function: FunctionType, old: str, new: str) -> Variant:
    """The function's code with one piece of its source text replaced, readable through `linecache`."""
    path = function.__code__.co_filename
    text = "".join(linecache.getlines(path))
    assert text.count(old) == 1
    edited = text.replace(old, new).splitlines(keepends=True)
    name = f"<made {next(_serial)}>"
    root = compile("".join(edited), name, "exec", dont_inherit=True)
    linecache.cache[name] = (1, None, edited, name)
    (code,) = [nested for nested in _codes(root) if nested.co_qualname == function.__qualname__]
    first = code.co_firstlineno
    last = max(line for *_, line in code.co_lines() if line is not None)
    return Variant(
        target=function.__qualname__,
        code=code,
        probed=None,
        defaults=function.__defaults__,
        kwdefaults=function.__kwdefaults__,
        annotations=function.__annotations__,
        lines=tuple(edited[first - 1 : last]),
        spots=(),
    )


def _codes(root: CodeType) -> list[CodeType]:
    found = [root]
    for const in root.co_consts:
        if isinstance(const, type(root)):
            found += _codes(const)
    return found
