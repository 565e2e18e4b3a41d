"""What lives on a function object and not in its code: default values and annotations.

Only what an edit changed is evaluated anew, in the function's own globals and class namespace. Everything
else keeps its live object, so a default with a side effect does not run again, and a default that exists
only inside a class body need not be found again.
"""

from __future__ import annotations
import __future__

import ast
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from prtoggle.errors import EditError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import CodeType, FunctionType

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


class Extras(NamedTuple):
    """The values of a function's attributes that go with one version of its code."""

    defaults: tuple[object, ...] | None
    kwdefaults: dict[str, object] | None
    annotations: dict[str, object] | None


def extras_of(function: FunctionType) -> Extras:
    """What the function carries now, the very objects; annotations only matter once an edit changes one."""
    return Extras(function.__defaults__, function.__kwdefaults__, None)


class Evaluator:
    """Evaluates the changed expressions of a `def` line where the function was defined."""

    def __init__(
        self, function: FunctionType, class_namespace: Mapping[str, Any], flags: int, target: str
    ) -> None:
        self.function = function
        self._locals = dict(class_namespace)
        self._flags = flags
        self._target = target

    def value(self, expression: ast.expr) -> object:
        """The value of one expression. Raises EditError with the expression's own error."""
        try:
            owner = mangling_class(self.function.__code__)
            if owner and any(map(_is_private, ast.walk(expression))):
                return self._value_in_class(owner, expression)
            code = compile(ast.Expression(expression), "<prtoggle default>", "eval", self._flags, True)
            return eval(code, self.function.__globals__, self._locals)  # noqa: S307  # the edit's own text, as a def would run it
        except Exception as error:
            raise EditError(
                f"{self._target}: the changed expression {ast.unparse(expression)!r} of the def line fails "
                f"where the function was defined: {type(error).__name__}: {error}; "
                "arm the toggle before the module is loaded",
                target=self._target,
            ) from error

    def _value_in_class(self, owner: str, expression: ast.expr) -> object:
        """The value where private names are those of the class `owner`."""
        result = ast.Assign([ast.Name("value", ast.Store())], expression)
        body = ast.parse(f"class {owner}: pass").body
        assert isinstance(body[0], ast.ClassDef), owner
        body[0].body = [result]
        tree = ast.fix_missing_locations(ast.Module(body, []))
        module = compile(tree, "<prtoggle default>", "exec", self._flags, True)
        code = next(const for const in module.co_consts if isinstance(const, type(module)))
        namespace = dict(self._locals)
        exec(code, self.function.__globals__, namespace)  # noqa: S102  # the edit's own text, as a def would run it
        return namespace["value"]

    def annotation(self, expression: ast.expr) -> object:
        """What the annotation comes to: its text under `from __future__ import annotations`, or its value."""
        if self._flags & __future__.annotations.compiler_flag:
            return ast.unparse(expression)
        return self.value(expression)


def _is_private(node: ast.AST) -> bool:
    name = getattr(node, "id", None) or getattr(node, "attr", None) or ""
    return name.startswith("__") and not name.endswith("__")


def mangling_class(code: CodeType) -> str:
    """The innermost class around a function, whose name goes into private names there; "" for none."""
    names = code.co_qualname.split(".")
    around = [name for name, next_name in pairwise(names) if "<locals>" not in (name, next_name)]
    return around[-1].lstrip("_") if around else ""


def _mangle(node: FunctionNode, owner: str) -> None:
    """Give private parameters the names that the code, its keyword defaults and annotations have."""
    for parameter in _parameters(node.args):
        if owner and parameter.arg.startswith("__") and not parameter.arg.endswith("__"):
            parameter.arg = f"_{owner}{parameter.arg}"


def _parameters(arguments: ast.arguments) -> list[ast.arg]:
    every = [
        *arguments.posonlyargs,
        *arguments.args,
        arguments.vararg,
        *arguments.kwonlyargs,
        arguments.kwarg,
    ]
    return [parameter for parameter in every if parameter is not None]


def edited_extras(
    current: Extras,
    code: CodeType,
    old: FunctionNode,
    new: FunctionNode,
    evaluator: Evaluator,
) -> Extras:
    """The attributes that go with the definition `new` of a function that is written as `old`.

    `current` and `code` are what the function with the text `old` carries. Annotations are None when the edit
    changes none.
    """
    for node in (old, new):
        _mangle(node, mangling_class(code))
    live = _live_defaults(current, code)
    before, after = _default_expressions(old.args), _default_expressions(new.args)

    def value(name: str) -> object:
        same = name in before and _same(before[name], after[name])
        return live[name] if same and name in live else evaluator.value(after[name])

    changed = _changed_annotations(old, new)
    annotations = None
    if changed is not None:
        kept = evaluator.function.__annotations__
        annotations = {
            name: kept[name] if name not in changed and name in kept else evaluator.annotation(expression)
            for name, expression in _annotation_expressions(new).items()
        }
    if _same_signature(old.args, new.args):
        return Extras(current.defaults, current.kwdefaults, annotations)
    positional = [*new.args.posonlyargs, *new.args.args]
    defaulted = positional[len(positional) - len(new.args.defaults) :]
    defaults = tuple(value(arg.arg) for arg in defaulted)
    kwdefaults = {arg.arg: value(arg.arg) for arg in new.args.kwonlyargs if arg.arg in after}
    return Extras(defaults or None, kwdefaults or None, annotations)


def _changed_annotations(old: FunctionNode, new: FunctionNode) -> set[str] | None:
    """The names whose annotation `new` changed; None when it holds the same annotations as `old`."""
    before, after = _annotation_expressions(old), _annotation_expressions(new)
    changed = {name for name in after if name not in before or not _same(before[name], after[name])}
    return changed if changed or before.keys() != after.keys() else None


def _annotation_expressions(node: FunctionNode) -> dict[str, ast.expr]:
    found = {arg.arg: arg.annotation for arg in _parameters(node.args) if arg.annotation is not None}
    returns = None if isinstance(node, ast.Lambda) else node.returns
    return found if returns is None else {**found, "return": returns}


def _live_defaults(current: Extras, code: CodeType) -> dict[str, object]:
    names = code.co_varnames[: code.co_argcount]
    values = current.defaults or ()
    live = dict(zip(names[len(names) - len(values) :], values, strict=True))
    return live | (current.kwdefaults or {})


def _default_expressions(arguments: ast.arguments) -> dict[str, ast.expr]:
    positional = [*arguments.posonlyargs, *arguments.args]
    defaulted = positional[len(positional) - len(arguments.defaults) :]
    found = {arg.arg: value for arg, value in zip(defaulted, arguments.defaults, strict=True)}
    for arg, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        if default is not None:
            found[arg.arg] = default
    return found


def _same(old: ast.expr, new: ast.expr) -> bool:
    return ast.dump(old) == ast.dump(new)


def _same_signature(old: ast.arguments, new: ast.arguments) -> bool:
    def names(arguments: ast.arguments) -> Sequence[list[str]]:
        # Apart: the default of a parameter that becomes keyword-only moves to another attribute.
        positional = [arg.arg for arg in (*arguments.posonlyargs, *arguments.args)]
        return positional, [arg.arg for arg in arguments.kwonlyargs]

    before, after = _default_expressions(old), _default_expressions(new)
    return (
        names(old) == names(new)
        and before.keys() == after.keys()
        and all(_same(before[name], after[name]) for name in before)
    )
