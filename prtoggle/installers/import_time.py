"""What of a module's source runs when the module is imported: the reads of names there, and the imports."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field


@dataclass(slots=True)
class ImportTime:
    """The reads, each with the statement that it is part of; the imports, each with whether a class makes it.

    `scopes` gives the names of the classes in whose bodies a statement stands, outermost first; `decorators`
    those of a class by its own such names. `asked` are the calls and subscripts, which may read by a name
    that is a string, each with its statement; `assigned` is what a name was given.
    """

    reads: list[tuple[ast.expr, ast.stmt]] = field(default_factory=list)
    imports: list[tuple[ast.ImportFrom, bool]] = field(default_factory=list)
    modules: list[ast.Import] = field(default_factory=list)
    scopes: dict[ast.stmt, tuple[str, ...]] = field(default_factory=dict)
    decorators: dict[tuple[str, ...], list[ast.expr]] = field(default_factory=dict)
    asked: list[tuple[ast.Call | ast.Subscript, ast.stmt]] = field(default_factory=list)
    assigned: dict[str, list[ast.expr]] = field(default_factory=dict)


def import_time(tree: ast.Module, *, is_main: bool) -> ImportTime:
    """What runs when `tree` is imported: not the bodies of functions and lambdas."""
    visitor = _Visitor(is_main=is_main)
    visitor.visit(tree)
    return visitor.found


class _Visitor(ast.NodeVisitor):
    def __init__(self, *, is_main: bool) -> None:
        self.found = ImportTime()
        self._is_main = is_main
        self._classes: list[str] = []
        self._statement: ast.stmt | None = None

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.stmt):
            self._statement = node
            if self._classes:
                self.found.scopes[node] = tuple(self._classes)
        super().visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        arguments = node.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        every += [argument for argument in (arguments.vararg, arguments.kwarg) if argument is not None]
        annotations = [argument.annotation for argument in every]
        evaluated = [*node.decorator_list, *arguments.defaults, *arguments.kw_defaults, *annotations]
        for expression in (*evaluated, node.returns):
            if expression is not None:
                self.visit(expression)

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815

    def visit_Lambda(self, node: ast.Lambda) -> None:
        for expression in (*node.args.defaults, *node.args.kw_defaults):
            if expression is not None:
                self.visit(expression)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for expression in (*node.decorator_list, *node.bases, *(keyword.value for keyword in node.keywords)):
            self.visit(expression)
        self._classes.append(node.name)
        self.found.decorators[tuple(self._classes)] = node.decorator_list
        for statement in node.body:
            self.visit(statement)
        self._classes.pop()

    def visit_If(self, node: ast.If) -> None:
        test = ast.unparse(node.test)
        self.visit(node.test)
        skipped = test.endswith("TYPE_CHECKING") or (test.startswith("__name__ ==") and not self._is_main)
        for statement in (*(() if skipped else node.body), *node.orelse):
            self.visit(statement)

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            self._assigned(target, node.value)
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.visit(node.annotation)
        if node.value is not None:
            self._assigned(node.target, node.value)
            self.visit(node.value)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self._assigned(node.target, node.value)
        self.visit(node.value)

    def _assigned(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self.found.assigned.setdefault(target.id, []).append(value)

    def visit_Import(self, node: ast.Import) -> None:
        self.found.modules.append(node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        self.found.imports.append((node, bool(self._classes)))

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self._read(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if isinstance(node.ctx, ast.Load):
            self._read(node)
        self.visit(node.value)

    def visit_Call(self, node: ast.Call) -> None:
        assert self._statement is not None, ast.dump(node)
        self.found.asked.append((node, self._statement))
        self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        assert self._statement is not None, ast.dump(node)
        if isinstance(node.ctx, ast.Load):
            self.found.asked.append((node, self._statement))
        self.generic_visit(node)

    def _read(self, node: ast.expr) -> None:
        assert self._statement is not None, ast.dump(node)
        self.found.reads.append((node, self._statement))


def aliases(expression: ast.expr, statement: ast.stmt) -> list[str]:
    """The names that the statement makes hold exactly what the expression reads; none if it does more."""
    if isinstance(statement, ast.Assign) and statement.value is expression:
        targets: list[ast.expr] = statement.targets
    elif isinstance(statement, ast.AnnAssign) and statement.value is expression:
        targets = [statement.target]
    else:
        return []
    names = [target.id for target in targets if isinstance(target, ast.Name)]
    return names if len(names) == len(targets) else []
