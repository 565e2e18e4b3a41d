"""Which statements run, or not, for what another one says: behind a way out, and below a header."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from prtoggle.definitions import last_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break, ast.Assert)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
#: Functions of the standard library and of test tools that do not come back.
_NO_RETURN: Final = frozenset(
    {"exit", "quit", "_exit", "abort", "execv", "execve", "execvp", "execvpe", "execl", "execle", "execlp"}
    | {"fail", "skip", "skipTest", "xfail", "pthread_kill"}
)


def lines_of(node: ast.AST) -> set[int]:
    """The lines of a statement, an expression or a branch, from 1."""
    if isinstance(node, ast.match_case):
        return set(range(node.pattern.lineno, (node.body[-1].end_lineno or 0) + 1))
    first: int = getattr(node, "lineno", 0)
    return set(range(first, (getattr(node, "end_lineno", None) or first) + 1))


def ways_out(node: ast.stmt, *, in_loop: bool = False) -> Iterator[ast.stmt]:
    """The statements in `node` by which the block that it stands in is left, always or at times."""
    if isinstance(node, _LEAVES) or _does_not_return(node) or _never_ends(node):
        if not (in_loop and isinstance(node, (ast.Continue, ast.Break))):
            yield node
        return
    if isinstance(node, _DEFINITIONS):
        return
    loop = in_loop or isinstance(node, _LOOPS)
    for inner in ast.iter_child_nodes(node):
        parts = [inner] if isinstance(inner, ast.stmt) else getattr(inner, "body", [])
        for part in parts if isinstance(parts, list) else []:
            yield from ways_out(part, in_loop=loop)


def _does_not_return(node: ast.stmt) -> bool:
    """Whether a statement is a call that ends the process, the thread or the test."""
    value = node.value if isinstance(node, ast.Expr) else None
    value = value.value if isinstance(value, ast.Await) else value
    return isinstance(value, ast.Call) and last_name(value.func) in _NO_RETURN


def _never_ends(node: ast.stmt) -> bool:
    """Whether a statement is a loop that nothing in it ends: nothing behind it runs."""
    if not isinstance(node, ast.While) or not (isinstance(node.test, ast.Constant) and node.test.value):
        return False
    pending: list[ast.AST] = list(node.body)
    while pending:
        inner = pending.pop()
        if isinstance(inner, (ast.Break, ast.Return, ast.Raise)):
            return False
        if not isinstance(inner, (*_DEFINITIONS, *_LOOPS)):
            pending += ast.iter_child_nodes(inner)
    return True


def below(node: ast.AST, new: set[int]) -> set[int]:
    """The lines that run for what a header says of which some line is among `new`.

    Headers are conditions, ranges, contexts, subjects, exceptions and patterns. They decide of the bodies,
    the `else` and `elif` branches, the cases and handlers that follow, and the operands that come later.
    """
    return {line for part in _decided(node, new) for line in lines_of(part)}


def _decided(node: ast.AST, new: set[int]) -> Iterator[ast.AST]:
    if isinstance(node, (ast.If, *_LOOPS, ast.With, ast.AsyncWith, ast.ExceptHandler)):
        if new & set(range(node.lineno, max(node.lineno + 1, node.body[0].lineno))):
            yield from (*node.body, *getattr(node, "orelse", ()))
    elif isinstance(node, ast.Match):
        if new & set(range(node.lineno, node.cases[0].pattern.lineno)):
            yield from node.cases
        yield from _behind(node.cases, [_case_head(case) for case in node.cases], new)
    elif isinstance(node, (ast.Try, ast.TryStar)):
        heads = [set(range(handler.lineno, handler.body[0].lineno)) for handler in node.handlers]
        yield from _behind(node.handlers, heads, new)
        if new and all(new & lines_of(statement) for statement in node.body):
            # Whether the body still raises what it raised, its own lines alone say.
            yield from (*node.handlers, *node.orelse)
    elif isinstance(node, ast.expr):
        yield from _decided_in(node, new)


def _decided_in(node: ast.expr, new: set[int]) -> Iterator[ast.AST]:
    """The same for the parts of an expression."""
    if isinstance(node, ast.BoolOp):
        yield from _behind(node.values, [lines_of(value) for value in node.values], new, own=False)
    elif isinstance(node, _COMPREHENSIONS):
        for number, part in enumerate(node.generators):
            if new & lines_of(part.iter):
                behind = node.generators[number + 1 :]
                yield from (*part.ifs, *(inner for other in behind for inner in (other.iter, *other.ifs)))
    elif isinstance(node, ast.IfExp) and new & lines_of(node.test):
        yield from (node.body, node.orelse)


def _case_head(case: ast.match_case) -> set[int]:
    return set(range(case.pattern.lineno, max(case.pattern.lineno + 1, case.body[0].lineno)))


def _behind(
    parts: Sequence[ast.AST], heads: Sequence[set[int]], new: set[int], *, own: bool = True
) -> Iterator[ast.AST]:
    """The first part whose head is among the new lines, unless it is not to count, and all that follow."""
    for number, head in enumerate(heads):
        if new & head:
            yield from parts[number if own else number + 1 :]
            return
