"""Whether what a target's name leads to when its module has run is what a toggle made.

An edit that went into the text, and was then replaced by something else (another branch, a later assignment),
is not in force, whatever was done for it.
"""

from __future__ import annotations

import ast
import inspect
from types import BuiltinFunctionType, FunctionType, ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from prtoggle.code.quiet import parse
from prtoggle.code.value_source import given_to, is_same, literal_value
from prtoggle.definitions import bound_in, bound_names, locate
from prtoggle.errors import PrToggleError, TargetError, UnsupportedTargetError
from prtoggle.installers.holders import short
from prtoggle.live import code_qualname, find_attribute
from prtoggle.peeling import opened, peel
from prtoggle.plans.births import Witness
from prtoggle.plans.site_maker import running_functions
from prtoggle.rebinding import rebound_at
from prtoggle.recompile import all_codes

if TYPE_CHECKING:
    from prtoggle.live import Attribute
    from prtoggle.plans.births import Birth, Unit
    from prtoggle.plans.slots import Slot
    from prtoggle.spec import Patch
    from prtoggle.target import ResolvedTarget

_DEFINITIONS: Final = (FunctionType, BuiltinFunctionType, type)
# Values that stay as they are: a list or a dict may be filled after it was assigned.
_PLAIN: Final = (bool, int, float, complex, str, bytes, tuple, frozenset, type(None))


def verify_load(
    birth: Birth, module: ModuleType, present: object, slot: Slot, resolved: ResolvedTarget, patch: Patch
) -> None:
    """Raise TargetError unless something that the patch edited is what the module now defines.

    `present` is what stands in `sys.modules` for the module, which may have put another object there. What is
    in force is noted in `birth.witnesses`.
    """
    units = [
        unit
        for unit in birth.units
        if any(spot.toggle_id == slot.id and spot.target == resolved.text for spot in unit.spots)
    ]
    if units and not any(_is_in_force(birth, unit, _seen_by_name(module, present, unit)) for unit in units):
        places = ", ".join(f"line {unit.start + 1}" for unit in units)
        raise TargetError(_replaced(birth, module, patch, places, ""), target=patch.target)
    _verify_value(birth, module, slot, resolved, patch)
    names = dict.fromkeys(unit.qualname for unit in units)
    if birth.outside_of(slot, resolved.text) and resolved.qualname:
        names[resolved.qualname] = None
    for name in names:
        _witness(birth, module, slot, name, patch.target)


def _replaced(birth: Birth, module: ModuleType, patch: Patch, places: str, found: str) -> str:
    return (
        f"{patch.target}: {birth.path} was edited at {places}, but what {module.__name__} defines "
        f"under that name in the end is something else{found} (another branch, or a later assignment); name "
        "what is in force, or use wrap: on it"
    )


def _seen_by_name(module: ModuleType, present: object, unit: Unit) -> ModuleType:
    """The module, or what has taken its place, as far as that has the name."""
    first = unit.qualname.partition(".")[0]
    if present is module:
        return module
    raw = inspect.getattr_static(present, first, None)
    if raw is None:
        return module
    seen = ModuleType(module.__name__)
    vars(seen)[first] = raw
    return seen


def _witness(birth: Birth, module: ModuleType, slot: Slot, qualname: str, target: str) -> None:
    try:
        attribute = find_attribute(module, qualname, target)
        peeled = peel(attribute.raw, code_qualname(qualname), target)
    except PrToggleError:
        # The name is gone, or a compiler has made something of the function.
        return
    units = [unit for unit in birth.units if unit.qualname == qualname]
    names = {unit.filename for unit in units}
    found = next((item.function for item in peeled if item.function.__code__.co_filename in names), None)
    unit = next((unit for unit in units if found and unit.filename == found.__code__.co_filename), None)
    witness = Witness(target, qualname, attribute.trail, found, unit)
    birth.witnesses.setdefault(slot, []).append(witness)


def _is_in_force(birth: Birth, unit: Unit, module: ModuleType) -> bool:
    """Whether the edited function is what its name leads to, or lives on where no name can tell."""
    if unit.code is None:
        return birth.rewritten
    try:
        attribute = find_attribute(module, unit.qualname, unit.qualname)
        peeled = peel(attribute.raw, code_qualname(unit.qualname), unit.qualname)
        # By file name, for a decorator may have given the function a copy of its code.
        found = any(is_of(unit, item.function) for item in peeled)
        if found:
            return unit.decorated or _is_called_by(attribute, unit)
    except PrToggleError as error:
        # A compiler made something of the edited function; or the name was deleted.
        return isinstance(error, UnsupportedTargetError) or _outlives_its_name(birth, unit)
    if unit.decorated:
        # Below a `register` the decorator keeps the function, and the name `_` is for whoever comes last.
        is_kept = unit.qualname.rpartition(".")[2] == "_" and bool(running_functions(unit))
        return is_kept or not _is_other_definition(attribute.raw)
    # A plain function or builtin under that name is another definition; an object may hold ours out of sight.
    if isinstance(attribute.raw, _DEFINITIONS) or not _is_made_from_it(birth, unit):
        return False
    return bool(running_functions(unit))


def _outlives_its_name(birth: Birth, unit: Unit) -> bool:
    """Whether a function whose name was deleted was used before, or is held by somebody."""
    deleted = rebound_at(parse(birth.source.text), unit.qualname, [unit.start + 1])
    return not deleted or bool(running_functions(unit))


def is_of(unit: Unit, function: FunctionType) -> bool:
    """Whether the function runs the unit's code, or a copy of it."""
    return function.__code__.co_filename == unit.filename


def _is_other_definition(raw: object) -> bool:
    """Whether `raw` is a function that stands for itself, which no decorator has made of another one."""
    if type(raw) is FunctionType:
        return "<locals>" not in raw.__code__.co_qualname
    return type(raw) is BuiltinFunctionType


def _is_called_by(attribute: Attribute, unit: Unit) -> bool:
    """Whether a function that stands in the place of ours has more of it than what `wraps` noted."""
    raw: Any = attribute.raw
    raw = raw.__func__ if isinstance(raw, (staticmethod, classmethod)) else raw
    if type(raw) is not FunctionType or is_of(unit, raw) or "__wrapped__" not in vars(raw):
        return True
    names = {name for code in all_codes(raw.__code__) for name in code.co_names}
    spaces = [raw.__globals__, vars(attribute.owner)]
    held = [space[name] for space in spaces for name in names if name in space]
    held += [value for name, value in vars(raw).items() if name != "__wrapped__"]
    held += [cell.cell_contents for cell in raw.__closure__ or () if _is_filled(cell)]
    held += [*(raw.__defaults__ or ()), *(raw.__kwdefaults__ or {}).values()]
    carriers = [*held, SimpleNamespace(held=tuple(held[:20])), *(SimpleNamespace(held=item) for item in held)]
    return "__wrapped__" in names or any(
        type(item) is FunctionType and is_of(unit, item)
        for carrier in carriers
        for item in opened(carrier, unit.qualname)
    )


def _is_filled(cell: Any) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True


def _is_made_from_it(birth: Birth, unit: Unit) -> bool:
    """Whether the last assignment to the function's name mentions it, or a name that was given it."""
    tree = parse(birth.edited)
    nodes = locate(tree, unit.qualname)
    last = nodes[-1].node if nodes else None
    if not isinstance(last, (ast.Assign, ast.AnnAssign)) or last.value is None:
        return True
    scope = nodes[-1].scopes[-1] if nodes[-1].scopes else tree
    names = {unit.qualname.rpartition(".")[2]}
    for statement in bound_in(scope):
        if statement is not last and isinstance(statement, (ast.Assign, ast.AnnAssign)):
            assert statement is not None
            if statement.value is not None and _mentions(statement.value, names):
                names.update(bound_names(statement, scope))
    return _mentions(last.value, names)


def _mentions(expression: ast.expr, names: set[str]) -> bool:
    return any(isinstance(node, ast.Name) and node.id in names for node in ast.walk(expression))


def _verify_value(
    birth: Birth, module: ModuleType, slot: Slot, resolved: ResolvedTarget, patch: Patch
) -> None:
    """Raise TargetError when a constant is none of the values that its edited assignments give it."""
    splices = birth.outside_of(slot, resolved.text)
    if not splices or not resolved.qualname or "<" in resolved.qualname:
        return
    before = _assigned(birth.source.text, resolved.qualname)
    after = _assigned(birth.edited, resolved.qualname)
    wanted = [after[text] for text in after if text not in before]
    if not wanted or any(value is _UNKNOWN for value in wanted):
        return
    try:
        attribute = find_attribute(module, resolved.qualname, patch.target)
    except PrToggleError:
        return
    held = attribute.raw
    if type(held) not in _PLAIN or any(is_same(held, value) for value in wanted):
        return
    # What makes a class may have made another value of ours; of the fixed one it has not.
    if isinstance(attribute.owner, type) and not any(is_same(held, value) for value in before.values()):
        return
    places = ", ".join(f"line {birth.source.line_of(splice.start)}" for splice in splices)
    raise TargetError(_replaced(birth, module, patch, places, f", {short(held)}"), target=patch.target)


_UNKNOWN: Final = object()


def _assigned(text: str, qualname: str) -> dict[str, object]:
    """What each assignment of the name gives it, by its expression; `_UNKNOWN` for what is computed."""
    found: dict[str, object] = {}
    for node in locate(parse(text), qualname):
        statement = node.node
        if not isinstance(statement, (ast.Assign, ast.AnnAssign)) or statement.value is None:
            return {}
        value = given_to(statement, qualname.rpartition(".")[2])
        if value is None:
            found[ast.dump(statement.value)] = _UNKNOWN
            continue
        try:
            found[ast.dump(value)] = literal_value(value)
        except ValueError:
            found[ast.dump(value)] = _UNKNOWN
    return found
