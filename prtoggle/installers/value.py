"""`value:` patches: a module constant or class attribute that has another value while the toggle is active.

At load the assignment itself is edited (`prtoggle.code.value_source`): whoever imports the constant or
computes with it while modules load gets the reverted value, as if the file said so. Live (`plan`) the name
is bound anew, together with every other name that holds the old object. Where import-time code made
something of the old value (another constant, a default argument), a new binding would be a half-reverted
program: that is refused, and the message says where.
"""

from __future__ import annotations

import ast
import copy
import enum
from types import FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any, Final

from prtoggle.code.value_source import is_same, literal_value
from prtoggle.definitions import locate
from prtoggle.dynamo import forget_compiled
from prtoggle.errors import AlreadyRevertedError, RestoreError, UnsupportedTargetError
from prtoggle.installers import early_binding, holders
from prtoggle.installers.class_making import taken_by
from prtoggle.installers.triton_jit import forget_global
from prtoggle.live import find_attribute

if TYPE_CHECKING:
    from prtoggle.installers.base import LivePatch

# Kinds whose objects are shared by whoever writes the same literal: identity says nothing about where they
# came from.
_SHARED: Final = (int, float, complex, str, bytes, tuple, frozenset, range, type(None), type(...))
_AT_LOAD: Final = "set PRTOGGLE before the module is imported"


def plan(patch: LivePatch) -> ValueStep:
    """Plan `value:` for a loaded module; raises a PrToggleError leaf naming the target. Changes nothing."""
    return _plan(patch.module, patch.qualname, patch.patch.target, patch.patch.value)


def plan_edited(module: ModuleType, qualname: str, target: str, source: str, edited: str) -> ValueStep:
    """Plan an edit of the assignment of a constant, for a loaded module, as the value that it then has.

    `source` and `edited` are the module's text before and after. Raises UnsupportedTargetError when either
    is not a plain literal, or when the name does not hold what `source` says: nothing is evaluated.
    """
    old, new = _literal_of(source, qualname, target), _literal_of(edited, qualname, target)
    if _beside(source, qualname) != _beside(edited, qualname):
        raise UnsupportedTargetError(
            f"{target} shares its line with other statements, and they change with it: on a loaded module "
            f"only its own value can. Name each constant in a patch of its own, or {_AT_LOAD}.",
            target=target,
        )
    held = find_attribute(module, qualname, target).raw
    if not is_same(held, old):
        raise UnsupportedTargetError(
            f"{target} is {held!r} now, not {old!r} as its source says: something changed it after the "
            f"import. Give the value with value:, or {_AT_LOAD}.",
            target=target,
        )
    return _plan(module, qualname, target, new)


def _plan(module: ModuleType, qualname: str, target: str, value: object) -> ValueStep:
    attribute = find_attribute(module, qualname, target)
    _refuse_kind(attribute.owner, attribute.name, attribute.raw, target)
    refuse_same(attribute.raw, value, target)
    step = ValueStep(target, module, attribute.owner, attribute.name, value)
    # It holds the constant too.
    del attribute
    step.verify()
    return step


class ValueStep:
    """One constant; `install` and `restore` alternate, under the engine's lock."""

    __slots__ = ("_module", "_name", "_new", "_old", "_owner", "_target", "_value", "_verified")

    def __init__(
        self, target: str, module: ModuleType, owner: ModuleType | type, name: str, value: object
    ) -> None:
        self._target = target
        self._module = module
        self._owner = owner
        self._name = name
        self._value = value
        self._verified: list[holders.Place] | None = None
        # What was there, and what is, while the patch is in effect.
        self._old: object = None
        self._new: object = None

    def verify(self) -> None:
        """Find every name that must change with the constant; raises where something cannot."""
        self._verified = self._places()

    def install(self) -> None:
        """Bind the new value wherever the old one is held by name; a container is a fresh copy each time."""
        places, self._verified = self._verified or self._places(), None
        old, new = self._held(), copy.deepcopy(self._value)
        try:
            holders.exchange(places, old, new)
        except (AttributeError, TypeError) as error:
            raise UnsupportedTargetError(
                f"{self._target} cannot be set ({error}); {_AT_LOAD}.", target=self._target
            ) from error
        self._old, self._new = old, new
        self._recompile(places)

    def restore(self) -> None:
        """Put the very object back that was there, under every name that holds the new one by now."""
        held = self._held()
        if held is not self._new:
            raise RestoreError(
                f"{self._target} was changed after the toggle was reverted: it is {holders.short(held)} now. "
                "Undo that change first, then restore.",
                target=self._target,
            )
        try:
            places = self._places()
        except UnsupportedTargetError as error:
            raise RestoreError(
                f"{self._target} cannot be put back in a process that has used the reverted value: {error}",
                target=self._target,
            ) from error
        holders.exchange(places, self._new, self._old)
        self._old = self._new = None
        self._recompile(places)

    def is_in_effect(self) -> bool:
        """Whether the name holds the new value."""
        return vars(self._owner).get(self._name) is self._new

    def _held(self) -> object:
        return vars(self._owner)[self._name]

    def _recompile(self, places: list[holders.Place]) -> None:
        """Let kernels compile anew; they refuse a launch when a constant that they read has changed."""
        for place in places:
            if type(place.container) is dict:
                forget_global(place.container, place.key)

    def _places(self) -> list[holders.Place]:
        old = self._held()
        early = early_binding.find(self._module, self._owner, self._name, old)
        shared = isinstance(old, _SHARED)
        # Who merely holds an object that nobody else has is found through the object.
        others = [str(reading) for reading in early.readings if shared or not reading.is_binding]
        places = [_place(self._owner, self._name), *(_place(owner, name) for owner, name in early.names)]
        if not shared:
            found, unknown = holders.find(old, forget=forget_compiled)
            others += unknown
            places += [
                place
                for place in found
                if not any(place.is_at(known.container, known.key) for known in places)
            ]
        if others:
            raise UnsupportedTargetError(
                f"{self._target} was used before it could be changed: {'; '.join(others[:5])}. A new "
                f"value would not reach that; {_AT_LOAD}.",
                target=self._target,
            )
        return places


def _place(owner: ModuleType | type, name: str) -> holders.Place:
    return holders.Place(owner if isinstance(owner, type) else vars(owner), name)


def refuse_same(old: object, new: object, target: str) -> None:
    """Raise AlreadyRevertedError when the value is there already: the toggle would change nothing."""
    if is_same(old, new):
        raise AlreadyRevertedError(
            f"{target} is {old!r} already: the toggle would change nothing. Either the fix is not in this "
            "version, or the spec names the fixed value instead of the reverted one.",
            target=target,
        )


def _refuse_kind(owner: ModuleType | type, name: str, held: Any, target: str) -> None:
    kind = type(held).__name__
    instead = ""
    if isinstance(held, (FunctionType, MethodType, staticmethod, classmethod, property)):
        instead = f"it is a {kind}; use edits: or wrap: for it"
    elif isinstance(held, (type, ModuleType)):
        instead = "it is a class or module; name a constant in it"
    elif isinstance(owner, type) and hasattr(type(held), "__get__"):
        instead = f"it is a descriptor ({kind}), which computes what is read"
    elif isinstance(owner, enum.EnumType):
        instead = (
            f"it is a member of the enumeration {owner.__name__}, which lets none be replaced; {_AT_LOAD}"
        )
    elif isinstance(owner, type) and (taken := taken_by(owner, name)) is not None:
        instead = f"{taken}; {_AT_LOAD}"
    if instead:
        raise UnsupportedTargetError(f"{target} cannot be given a value: {instead}.", target=target)


def _binds_one_name(statement: ast.Assign) -> bool:
    return len(statement.targets) == 1 and isinstance(statement.targets[0], (ast.Name, ast.Attribute))


def _beside(source: str, qualname: str) -> list[str]:
    """The other statements in the lines of the assignments of the name, but for those around them."""
    tree = ast.parse(source)
    own = [node.node for node in locate(tree, qualname) if isinstance(node.node, ast.stmt)]
    lines = {line for statement in own for line in (statement.lineno, statement.end_lineno)}
    return [
        ast.dump(other)
        for other in ast.walk(tree)
        if isinstance(other, ast.stmt)
        and other.lineno in lines
        and not any(inner in own for inner in ast.walk(other))
    ]


def _literal_of(source: str, qualname: str, target: str) -> object:
    """The value that every assignment of the name gives it, when all give the same literal."""
    values = []
    for node in locate(ast.parse(source), qualname):
        statement = node.node
        if isinstance(statement, ast.Assign) and not _binds_one_name(statement):
            raise UnsupportedTargetError(
                f"{target} is assigned together with other names, by {ast.unparse(statement)!r}: on a loaded "
                f"module only its own value could change. Use value: for each of them, or {_AT_LOAD}.",
                target=target,
            )
        if isinstance(statement, (ast.Assign, ast.AnnAssign)) and statement.value is not None:
            try:
                values.append(literal_value(statement.value))
                continue
            except ValueError:
                pass
        raise UnsupportedTargetError(
            f"{target} is assigned {ast.unparse(statement)!r}, which is no plain literal: on a loaded "
            f"module that cannot be edited. Use value:, or {_AT_LOAD}.",
            target=target,
        )
    if not values or not all(is_same(value, values[0]) for value in values):
        raise UnsupportedTargetError(
            f"{target} has no single assignment in its module; on a loaded module that cannot be edited. "
            f"Use value:, or {_AT_LOAD}.",
            target=target,
        )
    return values[0]
