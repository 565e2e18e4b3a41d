"""Calls that fit a function as it is today and no longer fit it once a fix is out."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final, NamedTuple

from prtoggle.definitions import FunctionNode, last_name
from prtoggle.drift.functions import definitions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_RECORDS: Final = {"dataclass", "NamedTuple"}


class Signature(NamedTuple):
    """What a function takes: names by position, those that have to be passed, and the rest.

    `receiver` says that the first is passed by the dot of a method call.
    """

    positional: tuple[str, ...]
    required: frozenset[str]
    keyword: frozenset[str]
    more: bool
    any_keyword: bool
    receiver: bool

    def fits(self, positions: int, keywords: frozenset[str], *, whole: bool) -> bool:
        """Whether so many positions and these keywords can be passed; a part of a call may lack some."""
        if positions > len(self.positional) and not self.more:
            return False
        taken = set(self.positional[:positions])
        known = (self.keyword | set(self.positional)) if not self.any_keyword else keywords | taken
        if keywords & taken or not keywords <= known:
            return False
        return not whole or self.required <= taken | keywords


class Changed(NamedTuple):
    """A function whose signature the revert changes: its qualified name, and both signatures."""

    owner: str
    today: Signature
    reverted: Signature

    @property
    def names(self) -> frozenset[str]:
        """By what it is called: its own name, that of the class for what makes instances."""
        outer, _, name = self.owner.rpartition(".")
        makes = name in ("__init__", "__new__")
        return frozenset({outer.rpartition(".")[2]} if makes and outer else {name})

    @property
    def is_made(self) -> bool:
        """Whether it is what makes instances of a class."""
        return self.owner.rpartition(".")[2] in ("__init__", "__new__")

    @property
    def fields(self) -> frozenset[str]:
        """The fields of a record that the revert takes away."""
        if not self.is_made or self.today.receiver:
            return frozenset()
        return frozenset(self.today.positional) - frozenset(self.reverted.positional)

    @property
    def takes_as_much(self) -> bool:
        """Whether whatever can be passed today can be passed after the revert."""
        today, reverted = self.today, self.reverted
        names = [item.keyword | set(item.positional) for item in (today, reverted)]
        return (
            (reverted.more or (not today.more and _begins(reverted.positional, today.positional)))
            and (reverted.any_keyword or (not today.any_keyword and names[0] <= names[1]))
            and reverted.required <= today.required
        )


def _begins(whole: tuple[str, ...], part: tuple[str, ...]) -> bool:
    return whole[: len(part)] == part


def changed_signatures(today: ast.Module, reverted: ast.Module) -> list[Changed]:
    """The functions and records of a module that take something else once it is reverted."""
    before, after = _signatures(today), _signatures(reverted)
    return [
        Changed(name, signature, after[name])
        for name, signature in before.items()
        if name in after and after[name] != signature
    ]


def misfit(
    node: ast.AST,
    changed: Sequence[Changed],
    own: frozenset[str],
    aliases: Mapping[str, str],
    made: Mapping[int, str],
) -> Changed | None:
    """The function that a call is for which it does not fit after the revert, or for which nobody can tell.

    `own` are the names that the call's module binds itself, `aliases` what its imports call others by, `made`
    the class that a call makes an instance of without naming it, by the id of its node.
    """
    if not isinstance(node, ast.Call):
        return None
    function, *_ = names = [last_name(item) for item in (node.func, *node.args[:1])]
    names = [aliases.get(name, name) for name in names]
    for item in changed:
        if item.is_made and made.get(id(node)) in item.names and not _still_fits(node, item):
            return item
        if names[0] in ("replace", "_replace") and item.fields & {keyword.arg for keyword in node.keywords}:
            return item
        if names[0] in item.names and not (isinstance(node.func, ast.Name) and function in own):
            if not _still_fits(node, item):
                return item
        elif names[0] == "partial" and item.names & set(names[1:]):
            # What it is called with in the end, nobody can tell.
            return item
    return None


def _still_fits(node: ast.Call, item: Changed) -> bool:
    positions = sum(not isinstance(argument, ast.Starred) for argument in node.args)
    keywords = frozenset(keyword.arg for keyword in node.keywords if keyword.arg is not None)
    told = positions == len(node.args) and len(keywords) == len(node.keywords)
    through = _owner_of(node.func)
    bare = through and through == item.owner.rpartition(".")[0].rpartition(".")[2]
    today, reverted = (
        signature._replace(
            positional=signature.positional[1:], required=signature.required - {*signature.positional[:1]}
        )
        if signature.receiver and not bare
        else signature
        for signature in (item.today, item.reverted)
    )
    if not today.fits(positions, keywords, whole=told):
        # It is a call of something else that has the name.
        return True
    if not told:
        return reverted.fits(positions, keywords, whole=False) and _takes_as_much(today, reverted, node)
    return reverted.fits(positions, keywords, whole=True)


def _takes_as_much(today: Signature, reverted: Signature, node: ast.Call) -> bool:
    """Whether whatever a star brings, that fits today, fits after the revert."""
    stars = any(isinstance(argument, ast.Starred) for argument in node.args)
    if stars and not reverted.more and (today.more or today.positional != reverted.positional):
        return False
    names = [signature.keyword | set(signature.positional) for signature in (today, reverted)]
    more = today.any_keyword and not reverted.any_keyword
    opened = any(keyword.arg is None for keyword in node.keywords)
    if opened and not reverted.any_keyword and (more or not names[0] <= names[1]):
        return False
    return reverted.required <= today.required


def _owner_of(function: ast.expr) -> str:
    """The name before the dot of a call."""
    return last_name(function.value) if isinstance(function, ast.Attribute) else ""


def _signatures(tree: ast.Module) -> dict[str, Signature]:
    found: dict[str, Signature] = {}
    for definition in definitions(tree, ()):
        node = definition.node
        if isinstance(node, FunctionNode):
            if not definition.qualname.endswith((".fset", ".fdel")) and not _has(node, {"property"}):
                in_class = "." in definition.qualname and not _has(node, {"staticmethod"})
                found[definition.qualname] = _of_arguments(node.args, receiver=in_class)
        elif isinstance(node, ast.ClassDef) and (
            _has(node, _RECORDS) or any(last_name(base) in _RECORDS for base in node.bases)
        ):
            fields = list(_fields(node))
            names = tuple(name for name, _ in fields)
            needed = frozenset(name for name, has_default in fields if not has_default)
            init = f"{definition.qualname}.__init__"
            found[init] = Signature(names, needed, frozenset(), more=False, any_keyword=False, receiver=False)
    return found


def _of_arguments(arguments: ast.arguments, *, receiver: bool) -> Signature:
    every = [*arguments.posonlyargs, *arguments.args]
    needed = {argument.arg for argument in every[: len(every) - len(arguments.defaults)]}
    needed |= {
        argument.arg
        for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        if default is None
    }
    return Signature(
        tuple(argument.arg for argument in every),
        frozenset(needed),
        frozenset(argument.arg for argument in arguments.kwonlyargs),
        more=arguments.vararg is not None,
        any_keyword=arguments.kwarg is not None,
        receiver=receiver,
    )


def _fields(node: ast.ClassDef) -> Iterator[tuple[str, bool]]:
    for statement in node.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            yield statement.target.id, statement.value is not None


def _has(node: FunctionNode | ast.ClassDef, names: set[str]) -> bool:
    found = (item.func if isinstance(item, ast.Call) else item for item in node.decorator_list)
    return any(last_name(item) in names for item in found)
