"""The lines of one function in its module, and the frame in which they compile to the running code.

        lines[0 : start]        replaced by a nest of headers, or kept when the whole module has to be
        compiled lines[start : end]      the function, decorators included; splices count from here
        lines[end : ]           left out, or kept

The frame is verified: the unedited lines gave the running code object, so the edited lines, in the same
frame, give what the compiler would have made of them when the module was loaded.
"""

from __future__ import annotations

import ast
import inspect
import linecache
from dataclasses import dataclass, field
from importlib.machinery import SourceFileLoader
from typing import TYPE_CHECKING, Any, NamedTuple

from prtoggle.code.cells import mention
from prtoggle.code.outer_functions import first_line, outer_functions
from prtoggle.code.quiet import compiling, parse
from prtoggle.errors import StaleSourceError, UnsupportedTargetError
from prtoggle.recompile import (
    block_end,
    codes_at,
    compile_module,
    guess_imported,
    last_line,
    moved,
    nest_for,
    same_code,
    scan_imported,
)
from prtoggle.source.source_text import ModuleSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import CodeType


class Frame(NamedTuple):
    """What stands before and after a function's own lines in the text that is compiled."""

    prefix: str
    suffix: str
    # Line n of the framed text is line n + `shift` of the file.
    shift: int
    compiled: Callable[[str | ast.Module], CodeType]

    def around(self, text: str) -> str:
        """The text to parse or compile for (edited) lines of the function."""
        return f"{self.prefix}{text}{self.suffix}"


@dataclass(slots=True, eq=False)
class Region:
    """One function: `lines[start:end]` of its module as it was loaded, and the verified frame.

    Never changed; not frozen, because that would make it slow to make.
    """

    path: str
    lines: list[str]
    start: int
    end: int
    # The function's unedited lines; those of a lambda are the whole statement's.
    text: str
    # The line that the code begins at: `start` + 1, but for a lambda.
    first_line: int
    qualname: str
    # Which of the code objects of that name and line it is: 0, but for several lambdas in one line.
    ordinal: int
    frame: Frame
    # A flag that a decorator has put on the compiled code: that of types.coroutine, or none.
    flag: int = 0
    _source: list[ModuleSource] = field(default_factory=list, repr=False)

    @property
    def source(self) -> ModuleSource:
        """The unedited function in its frame, for matching edits; made at the first use."""
        if not self._source:
            self._source.append(ModuleSource(self.path, self.framed(self.text)))
        return self._source[0]

    def framed(self, text: str) -> str:
        """The text to parse or compile for (edited) lines of the function."""
        return self.frame.around(text)

    def compile(self, source: str | ast.Module, filename: str) -> CodeType | None:
        """The function's code from framed source, at the file's lines; None when it is not in there.

        Raises SyntaxError.
        """
        shift = self.frame.shift
        found = codes_at(self.frame.compiled(source), self.qualname, self.first_line - shift)
        if len(found) <= self.ordinal:
            return None
        code = moved(found[self.ordinal], shift, filename)
        return code.replace(co_flags=code.co_flags | self.flag) if self.flag else code


def source_lines(path: str, namespace: dict[str, Any] | None) -> list[str]:
    """The module's lines, newlines normalised, read afresh when the file changed; empty without a file."""
    linecache.checkcache(path)
    return linecache.getlines(path, namespace)


def find_region(
    code: CodeType,
    namespace: dict[str, Any],
    lines: list[str],
    path: str,
    target: str,
    *,
    extent: tuple[int, int] | None = None,
    present: Callable[[str], str] | None = None,
) -> Region:
    """The verified region of the function that runs `code`.

    `extent` are its first and end index in `lines` where they are known, `present` makes the text that
    `code` was compiled from out of the unedited one (for a function born reverted). Raises StaleSourceError
    when no frame gives the running code, UnsupportedTargetError when there is no source.
    """
    if not lines:
        raise UnsupportedTargetError(
            f"{target}: the source of {path} is not there, so its code cannot be edited; use wrap: on it",
            target=target,
        )
    start = code.co_firstlineno - 1 if extent is None else extent[0]
    if start >= len(lines):
        raise _stale(code, path, target)
    end = block_end(lines, start, max(start + 1, last_line(code))) if extent is None else extent[1]
    text = "".join(lines[start:end])
    for frame in _frames(code, namespace, lines, start, end, path):
        if extent is None and frame.suffix:
            # The whole module: only there can the end that indentation shows be wrong.
            right = _end_in(lines, start)
            if right not in (None, end):
                return find_region(
                    code, namespace, lines, path, target, extent=(start, right or end), present=present
                )
        line = code.co_firstlineno
        ordinal = _ordinal(frame, line - frame.shift, code, text if present is None else present(text))
        if ordinal is not None:
            flag = code.co_flags & inspect.CO_ITERABLE_COROUTINE
            return Region(path, lines, start, end, text, line, code.co_qualname, ordinal, frame, flag)
    raise _stale(code, path, target)


def _end_in(lines: Sequence[str], start: int) -> int | None:
    """The index after the function that begins at index `start`; None where none does.

    Code that can never run leaves no instruction, so that a string in it may be taken for the end.
    """
    try:
        tree = ast.parse("".join(lines))
    except (SyntaxError, ValueError):
        return None
    return next(
        (
            node.end_lineno
            for node in ast.walk(tree)
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and first_line(node) == start + 1
        ),
        None,
    )


def _ordinal(frame: Frame, line: int, code: CodeType, text: str) -> int | None:
    """Which of the code objects at the frame's `line` is `code`; None when none is."""
    try:
        with compiling():
            root = frame.compiled(frame.around(text))
    except (SyntaxError, ValueError):
        return None
    for ordinal, found in enumerate(codes_at(root, code.co_qualname, line)):
        if found.co_freevars != code.co_freevars and set(found.co_freevars) < set(code.co_freevars):
            # The edits that the function was loaded with dropped a variable, and its cell was kept.
            dropped = [name for name in code.co_freevars if name not in found.co_freevars]
            found = _with_mention(frame, text, code.co_qualname, line, dropped) or found  # noqa: PLW2901
        if same_code(moved(found, frame.shift), _as_compiled(code)):
            return ordinal
    return None


def _as_compiled(code: CodeType) -> CodeType:
    """The code before types.coroutine put its flag on it."""
    flag = code.co_flags & inspect.CO_ITERABLE_COROUTINE
    return code.replace(co_flags=code.co_flags ^ flag) if flag else code


def _with_mention(frame: Frame, text: str, name: str, line: int, names: Sequence[str]) -> CodeType | None:
    tree = parse(frame.around(text))
    for qualname, node in outer_functions(tree):
        if qualname == name and first_line(node) == line:
            mention(node, names)
            return codes_at(frame.compiled(tree), qualname, line)[0]
    return None


def _frames(
    code: CodeType, namespace: dict[str, Any], lines: list[str], start: int, end: int, path: str
) -> Iterator[Frame]:
    """The frames worth trying, cheapest first."""
    # A name that an edit newly uses could be a local of an enclosing function, which a nest would not know.
    if "<locals>" not in code.co_qualname:
        tried: list[list[str]] = []
        for imported in (guess_imported(code, namespace), None):
            names = scan_imported(code, lines) if imported is None else imported
            if names not in tried:
                tried.append(names)
                frame = _nest_frame(code, lines[start], start, names)
                if frame is not None:
                    yield frame
    prefix, suffix = "".join(lines[:start]), "".join(lines[end:])
    yield Frame(prefix, suffix, 0, lambda source: compile_module(source, path))
    loader = namespace.get("__loader__")
    if isinstance(loader, SourceFileLoader) and rewrites(loader):
        yield Frame(prefix, suffix, 0, _through(loader, path))


def _nest_frame(code: CodeType, first: str, start: int, imported: Sequence[str]) -> Frame | None:
    nest = nest_for(code, first[: len(first) - len(first.lstrip())], imported)
    if nest is None:
        return None
    flags = nest.flags
    return Frame(nest.header, "", start - nest.height, lambda source: compile_module(source, "<nest>", flags))


def rewrites(loader: SourceFileLoader) -> bool:
    """Whether a loader's class compiles sources in a way of its own, as import-time rewriters do."""
    return inspect.getattr_static(type(loader), "source_to_code") is not inspect.getattr_static(
        SourceFileLoader, "source_to_code"
    )


def _through(loader: SourceFileLoader, path: str) -> Callable[[str | ast.Module], CodeType]:
    def compiled(source: str | ast.Module) -> CodeType:
        data = source.encode() if isinstance(source, str) else source
        code: CodeType = loader.source_to_code(data, path)
        return code

    return compiled


def _stale(code: CodeType, path: str, target: str) -> StaleSourceError:
    return StaleSourceError(
        f"{target}: the running code does not come from the text of {path} (line {code.co_firstlineno}): "
        "the file was changed after it was imported, or another tool rewrote the function. Nothing was "
        "changed; restart the process, or revert before that tool does its work",
        target=target,
        file=path,
    )
