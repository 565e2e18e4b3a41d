"""A text as YAML nodes, and nodes as located values: the only place that knows YAML.

The YAML is composed into nodes, not constructed, so that every complaint has a line and a column; what is
constructed, is so safely.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import yaml

from prtoggle.errors import SpecError, SpecProblem
from prtoggle.spec_reader import Located
from prtoggle.yaml_readings import other_reading

if TYPE_CHECKING:
    from prtoggle.spec_reader import Kind, SpecReader

_KINDS: Final[dict[str, Kind]] = {
    "str": "text", "int": "whole number", "float": "number", "bool": "yes or no", "null": "nothing",
    "timestamp": "date", "seq": "list", "map": "mapping",
}  # fmt: skip
_PLAIN_KINDS: Final = ("str", "int", "float", "bool", "null")
_DEEPEST: Final = 50
_TAG_PREFIX: Final = "tag:yaml.org,2002:"
# The C reader gives the same nodes and marks, ten times as fast.
_Loader: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def spans(text: str) -> dict[str, tuple[int, int]]:
    """Where each value of a YAML text stands, as [start, end) by key path; its key, by the path and "@".

    The end of a block may lie behind comments and blank lines that follow it. Raises SpecError.
    """
    found: dict[str, tuple[int, int]] = {}
    root = compose(text, "<text>", Places(1, 1))
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


class Places:
    """Lines and columns of a text, counted in the file that holds it."""

    def __init__(self, line: int, column: int) -> None:
        self._line = line
        self._column = column

    def of(self, mark: yaml.Mark) -> tuple[int, int]:
        """Line and column of a mark, from 1."""
        column = mark.column + (self._column if mark.line == 0 else 1)
        return mark.line + self._line, column


def compose(text: str, file: str, places: Places) -> yaml.Node | None:
    """The root node of a text, None of an empty one. Raises SpecError for what is no YAML, at its place."""
    try:
        # The reader of plain Python looks at the characters when it is made.
        loader = _Loader(text)
        try:
            node: yaml.Node | None = loader.get_single_node()
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        raise SpecError.of([_yaml_problem(error, text, file, places)]) from None
    return node


class Tree:
    """Nodes as located values. What an alias repeats is read once, so aliases cannot blow a spec up."""

    def __init__(self, places: Places, reader: SpecReader) -> None:
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


def _yaml_problem(error: yaml.YAMLError, text: str, file: str, places: Places) -> SpecProblem:
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
