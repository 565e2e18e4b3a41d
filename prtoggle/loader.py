"""YAML text, files and Python constants into toggles. The only place that knows YAML, and it loads it safely.

The YAML is composed into nodes, not constructed, so that every complaint has a line and a column.
"""

from __future__ import annotations

import ast
import hashlib
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

from prtoggle.errors import SpecError, SpecProblem
from prtoggle.spec import Toggle, normalise_id
from prtoggle.spec_reader import Located, SpecReader
from prtoggle.yaml_readings import other_reading

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping

    from prtoggle.spec_reader import Kind

YAML_SUFFIXES: Final = (".yaml", ".yml")
CONSTANT: Final = re.compile(r"_PR_REVERT_YAML_(\w+)")

_KINDS: Final[dict[str, Kind]] = {
    "str": "text", "int": "whole number", "float": "number", "bool": "yes or no", "null": "nothing",
    "timestamp": "date", "seq": "list", "map": "mapping",
}  # fmt: skip
_PLAIN_KINDS: Final = ("str", "int", "float", "bool", "null")
_DEEPEST: Final = 50
_TAG_PREFIX: Final = "tag:yaml.org,2002:"
# The C reader gives the same nodes and marks, ten times as fast.
_Loader: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def load(source: str | os.PathLike[str]) -> Toggle:
    """One toggle from a file or from YAML text.

    A path object is a file. A string with a line break, or one that begins with "{", is YAML text; any other
    string is the path of a file. A .py file has to hold exactly one _PR_REVERT_YAML_ constant. Text without
    an id gets one from its contents. Raises SpecError, or FileNotFoundError for a file that is not there.
    """
    if isinstance(source, str) and ("\n" in source or source.lstrip().startswith("{")):
        digest = hashlib.sha256(source.encode(errors="surrogatepass")).hexdigest()[:8]
        return load_text(source, "<text>", default_id=f"text-{digest}")
    path = Path(source)
    if not path.exists():
        raise FileNotFoundError(
            f"{path} is not there; a spec is given as a path, or as YAML text of at least two lines"
        )
    if path.suffix != ".py":
        return load_file(path)
    toggles = load_python_constants(path)
    if len(toggles) != 1:
        found = ", ".join(toggle.id for toggle in toggles) or "none"
        raise SpecError(
            f"{path} has to hold one _PR_REVERT_YAML_ constant to be loaded as one toggle; found: {found}"
        )
    return toggles[0]


def load_file(path: str | os.PathLike[str]) -> Toggle:
    """The toggle of a YAML file; its name without suffix is the id of a spec that gives none."""
    return load_text(read_text(Path(path)), str(path), default_id=Path(path).stem)


def load_text(text: str, file: str, *, default_id: str | None, line: int = 1, column: int = 1) -> Toggle:
    """The toggle of YAML text that begins at `line` and `column` of `file`. Raises SpecError."""
    reader = SpecReader(file, default_id)
    places = _Places(line, column)
    try:
        root = _compose(text)
        if root is not None:
            return reader.read(_Tree(places, reader).located(root, ""), text)
        problem = SpecProblem(file, line, column, "", "is empty: a spec lists at least one patch")
    except yaml.YAMLError as error:
        problem = _yaml_problem(error, text, file, places)
    except UnicodeEncodeError as error:
        before = text[: error.start]
        at = (line + before.count("\n"), error.start - before.rfind("\n"))
        problem = SpecProblem(file, *at, "", "half of a surrogate pair is no character")
    except RecursionError:
        problem = SpecProblem(file, line, column, "", "is nested too deeply")
    raise SpecError.of([problem])


def load_mapping(
    spec: Mapping[str, object], *, default_id: str | None = None, file: str = "<mapping>"
) -> Toggle:
    """The toggle of a plain mapping that is laid out like the YAML. Raises SpecError."""
    return SpecReader(file, default_id).read(_from_plain(dict(spec)), "")


def load_python_constants(path: str | os.PathLike[str]) -> list[Toggle]:
    """The toggles of all `_PR_REVERT_YAML_<id> = "..."` constants of a module, which is not run.

    Raises SpecError for a constant that is no plain string, or whose YAML is wrong (at its line of the file).
    """
    return [
        load_constant(constant, Path(path)) for constant in find_constants(read_text(Path(path)), str(path))
    ]


def spans(text: str) -> dict[str, tuple[int, int]]:
    """Where each value of a YAML text stands, as [start, end) by key path; its key, by the path and "@".

    The end of a block may lie behind comments and blank lines that follow it. Raises SpecError.
    """
    found: dict[str, tuple[int, int]] = {}
    try:
        root = _compose(text)
    except yaml.YAMLError as error:
        raise SpecError.of([_yaml_problem(error, text, "<text>", _Places(1, 1))]) from None
    pending = [] if root is None else [(root, "")]
    while pending:
        node, path = pending.pop()
        found[path] = node.start_mark.index, node.end_mark.index
        if isinstance(node, yaml.SequenceNode):
            pending += [(item, f"{path}[{number}]") for number, item in enumerate(node.value)]
        elif isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                inner = f"{path}.{key.value}" if path else str(key.value)
                found[f"{inner}@"] = key.start_mark.index, key.end_mark.index
                pending.append((value, inner))
    return found


def find_constants(text: str, file: str) -> list[ast.Assign | ast.AnnAssign]:
    """The assignments of `_PR_REVERT_YAML_` constants at the top level of a module's text."""
    try:
        body = ast.parse(text).body
    except SyntaxError as error:
        problem = SpecProblem(
            file, error.lineno or 0, error.offset or 0, "", f"is no valid Python: {error.msg}"
        )
        raise SpecError.of([problem]) from None
    return [node for node in body if isinstance(node, (ast.Assign, ast.AnnAssign)) and constant_id(node)]


def constant_id(node: ast.Assign | ast.AnnAssign) -> str:
    """The id in the name of a `_PR_REVERT_YAML_<id>` constant, "" for any other assignment."""
    target = node.targets[0] if isinstance(node, ast.Assign) else node.target
    found = CONSTANT.fullmatch(target.id) if isinstance(target, ast.Name) else None
    return found[1] if found else ""


def load_constant(node: ast.Assign | ast.AnnAssign, path: Path) -> Toggle:
    """The toggle of one constant that `find_constants` found in the file."""
    value, name = node.value, f"_PR_REVERT_YAML_{constant_id(node)}"
    if not isinstance(value, ast.Constant) or not isinstance(value.value, str):
        problem = SpecProblem(
            str(path), node.lineno, node.col_offset + 1, "", f"{name} has to be a plain string"
        )
        raise SpecError.of([problem])
    # The text of a literal that begins with a backslash and a line break starts a line later.
    first = read_text(path).splitlines()[value.lineno - 1].rstrip()
    skipped = 1 if first.endswith("\\") else 0
    column = 1 if skipped or value.value.startswith("\n") else value.col_offset + 4
    return load_text(
        value.value, str(path), default_id=constant_id(node), line=value.lineno + skipped, column=column
    )


def written_id(text: str, default_id: str) -> str | None:
    """The id of a YAML spec without reading all of it; None when only a full reading can tell."""
    if text.lstrip().startswith("{"):
        return None
    found = re.search(r"^([\"']?)id\1[ \t]*:[ \t]*([^\n#]*)", text, re.MULTILINE)
    written = found[2].strip().strip("\"'") if found else default_id
    try:
        return normalise_id(written)
    except SpecError:
        return None


class _Places:
    """Lines and columns of a text, counted in the file that holds it."""

    def __init__(self, line: int, column: int) -> None:
        self._line = line
        self._column = column

    def of(self, mark: yaml.Mark) -> tuple[int, int]:
        column = mark.column + (self._column if mark.line == 0 else 1)
        return mark.line + self._line, column


def read_text(path: Path) -> str:
    """The UTF-8 text of a file. Raises SpecError, with the place, when it is something else."""
    data = path.read_bytes()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - data.rfind(b"\n", 0, error.start)
        problem = SpecProblem(
            str(path), line, column, "", f"is not UTF-8: {error.reason} {data[error.start]:#04x}"
        )
        raise SpecError.of([problem]) from None


def _compose(text: str) -> yaml.Node | None:
    loader = _Loader(text)
    try:
        node: yaml.Node | None = loader.get_single_node()
    finally:
        loader.dispose()
    return node


class _Tree:
    """Nodes as located values. What an alias repeats is read once, so aliases cannot blow a spec up."""

    def __init__(self, places: _Places, reader: SpecReader) -> None:
        self._places = places
        self._reader = reader
        # None while a node is being read.
        self._done: dict[int, Located | None] = {}

    def located(self, node: yaml.Node, path: str, depth: int = 0) -> Located:
        """The node as a located value; what is wrong with YAML itself is noted on the way."""
        line, column = self._places.of(node.start_mark)
        if id(node) in self._done:
            known = self._done[id(node)]
            if known is None:
                self._reader.problem(Located("nothing", line, column), path, "contains itself by an alias")
            return known or Located("nothing", line, column)
        if depth > _DEEPEST:
            raise RecursionError
        self._done[id(node)] = None
        kind = _KINDS.get(node.tag.removeprefix(_TAG_PREFIX), "tagged value")
        place = Located(kind, line, column)

        def plain() -> object:
            return self._construct(node, place, path)

        if isinstance(node, yaml.ScalarNode):
            done = Located(kind, line, column, node.value, plain=plain)
        elif isinstance(node, yaml.SequenceNode):
            items = [
                self.located(item, f"{path}[{number}]", depth + 1) for number, item in enumerate(node.value)
            ]
            done = Located(kind, line, column, items=tuple(items), plain=plain)
        else:
            keys, values = self._entries(node, path, depth + 1)
            done = Located(kind, line, column, keys=tuple(keys), items=tuple(values), plain=plain)
        self._done[id(node)] = done
        return done

    def _entries(self, node: yaml.Node, path: str, depth: int) -> tuple[list[Located], list[Located]]:
        keys, values, seen = [], [], dict[str, int]()
        for key_node, value_node in node.value:
            place = self._places.of(key_node.start_mark)
            if not isinstance(key_node, yaml.ScalarNode):
                self._reader.problem(Located("nothing", *place), path, "a key has to be a plain text")
                continue
            name: str = key_node.value
            key = Located("text", *place, name)
            inner = f"{path}.{name}" if path else name
            if name in seen:
                message = f"duplicate key {name!r}: it stands at line {seen[name]} already"
                self._reader.problem(key, inner, message)
            seen.setdefault(name, key.line)
            keys.append(key)
            values.append(self.located(value_node, inner, depth))
        return keys, values

    def _construct(self, node: yaml.Node, place: Located, path: str) -> object:
        self._refuse_ambiguous(node, path)
        try:
            return yaml.constructor.SafeConstructor().construct_document(node)
        except yaml.YAMLError as error:
            self._reader.problem(place, path, f"cannot be read: {getattr(error, 'problem', error)}")
            return None

    def _refuse_ambiguous(self, root: yaml.Node, path: str) -> None:
        """Note each plain scalar that only YAML 1.1 reads as it is read here."""
        pending, seen = [root], set[int]()
        while pending:
            node = pending.pop()
            if id(node) in seen:
                continue
            seen.add(id(node))
            if isinstance(node, yaml.MappingNode):
                pending += [part for pair in node.value for part in pair]
            elif isinstance(node, yaml.SequenceNode):
                pending += node.value
            elif (
                isinstance(node, yaml.ScalarNode)
                and not node.style
                and node.tag.removeprefix(_TAG_PREFIX) in _PLAIN_KINDS
            ):
                try:
                    read = yaml.constructor.SafeConstructor().construct_document(node)
                except (yaml.YAMLError, ValueError):
                    continue
                message = other_reading(node.value, read)
                if message is not None:
                    self._reader.problem(Located("text", *self._places.of(node.start_mark)), path, message)


def _yaml_problem(error: yaml.YAMLError, text: str, file: str, places: _Places) -> SpecProblem:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    reason = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
    context = getattr(error, "context", None)
    if mark is None:
        position = getattr(error, "position", 0)
        before = text[:position]
        mark = yaml.Mark("", position, before.count("\n"), position - before.rfind("\n") - 1, None, 0)
    lines = text.split("\n")
    written = lines[mark.line] if mark.line < len(lines) else ""
    blanks = written[: len(written) - len(written.lstrip())]
    advice = ": YAML is indented with spaces, and this line begins with a tab" if "\t" in blanks else ""
    line, column = places.of(mark)
    return SpecProblem(file, line, column, "", f"{f'{context}, ' if context else ''}{reason}{advice}")


def _from_plain(value: object) -> Located:
    if isinstance(value, dict):
        keys = tuple(Located("text", 0, 0, str(key)) for key in value)
        return Located(
            "mapping", 0, 0, keys=keys, items=tuple(map(_from_plain, value.values())), plain=lambda: value
        )
    if isinstance(value, (list, tuple)):
        return Located("list", 0, 0, items=tuple(map(_from_plain, value)), plain=lambda: value)
    kinds: Iterator[tuple[type, Kind]] = iter(
        [
            (str, "text"),
            (bool, "yes or no"),
            (int, "whole number"),
            (float, "number"),
            (type(None), "nothing"),
        ]
    )
    kind: Kind = next((name for kind, name in kinds if isinstance(value, kind)), "tagged value")
    return Located(kind, 0, 0, "" if value is None else str(value), plain=lambda: value)
