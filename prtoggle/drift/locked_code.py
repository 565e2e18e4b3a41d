"""The definition that a patch edits: as it stands today, as it was locked, with and without the fix."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from prtoggle.definitions import TargetNode, locate, made_from
from prtoggle.drift.functions import Definition, of_node
from prtoggle.drift.merging import dedented, indented
from prtoggle.edits import apply_splices, merge, plan_nodes
from prtoggle.errors import PrToggleError
from prtoggle.source.source_text import ModuleSource, split_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prtoggle.source.splices import Splice
    from prtoggle.spec import Patch
    from prtoggle.target import ResolvedTarget


class Today(NamedTuple):
    """A module of today's code and the definition in it that a patch is about."""

    module: str
    source: ModuleSource
    tree: ast.Module
    definition: Definition

    @property
    def text(self) -> str:
        """The definition, dedented, with LF."""
        return plain_text(self.definition.lines)

    def with_text(self, text: str) -> str:
        """The module's text with another (dedented) text of the definition."""
        if not self.definition.qualname:
            return "".join(line.rstrip("\r\n") + self.source.newline for line in split_lines(text))
        base, _ = dedented(self.definition.lines)
        first = self.definition.first - 1
        lines = [line.rstrip("\r\n") + self.source.newline for line in indented(split_lines(text), base)]
        rest = self.source.lines[first + len(self.definition.lines) :]
        return "".join([*self.source.lines[:first], *lines, *rest])


def plain_text(lines: Sequence[str]) -> str:
    """Lines of a definition without their common indentation, ended by LF."""
    return "".join(dedented([line.rstrip("\r\n") + "\n" for line in lines])[1])


def edited_definition(
    source: ModuleSource, tree: ast.Module, target: ResolvedTarget, splices: Sequence[Splice]
) -> Definition | None:
    """The definition of the target (or what it was made from) that holds the first splice."""
    nodes = locate(tree, target.qualname)
    nodes = [origin for node in nodes for origin in made_from(tree, node)] + nodes
    for node in nodes:
        first, last = source.starts[node.first_line - 1], min(node.last_line, len(source.lines))
        if first <= splices[0].start <= source.starts[last]:
            return of_node(source, node)
    return None


def named_definition(source: ModuleSource, tree: ast.Module, name: str, text: str) -> Definition | None:
    """Today's definition of a locked one: of several of that name the one with the text, else the first."""
    if not name:
        return Definition("", ast.Pass(), 1, list(source.lines))
    found = [of_node(source, node) for node in locate(tree, name)]
    same = [definition for definition in found if plain_text(definition.lines) == text]
    return next(iter(same or found), None)


def reverted_text(text: str, name: str, patch: Patch) -> str | None:
    """The text with the patch's edits done; None when they do not fit it."""
    source = ModuleSource(f"<{patch.target}>", text)
    try:
        tree = ast.parse(text)
        splices = plan_nodes(source, [_node(tree, name)], patch.target, patch, "lock")
        done = apply_splices(text, merge(splices))
        ast.parse(done)
    except (PrToggleError, SyntaxError, ValueError):
        return None
    return done


def _node(tree: ast.Module, name: str) -> TargetNode:
    """The one definition that a locked text holds, or its module."""
    if not name or len(tree.body) != 1:
        return locate(tree, "")[0]
    node = tree.body[0]
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        kind = "function"
    elif isinstance(node, ast.ClassDef):
        kind = "class"
    elif isinstance(node, (ast.Assign, ast.AnnAssign)):
        return TargetNode(name, "assignment", node, (), node.lineno, node.end_lineno or node.lineno)
    else:
        return locate(tree, "")[0]
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    return TargetNode(name, kind, node, (), first, node.end_lineno or node.lineno)  # type: ignore[arg-type]
