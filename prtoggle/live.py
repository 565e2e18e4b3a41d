"""A target in the running process: who owns the attribute that it names.

Nothing is called, bound or evaluated on the way: attributes are read from `__dict__`.
"""

from __future__ import annotations

import enum
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from prtoggle.errors import TargetError, UnsupportedTargetError
from prtoggle.spelling import near_names, or_none

if TYPE_CHECKING:
    from types import ModuleType

ACCESSORS: Final = ("fget", "fset", "fdel")

_EARLY: Final = "arm the toggle before the module is loaded (set PRTOGGLE, or revert before the import)"

Trail = tuple[tuple[Mapping[str, object], str, object], ...]


class Attribute(NamedTuple):
    """Where a name lives: `vars(owner)[name]` is `raw`, with descriptors unopened."""

    owner: ModuleType | type
    name: str
    raw: object
    # Every look-up on the way, to see later whether the name still leads here.
    trail: Trail


def find_attribute(module: ModuleType, qualname: str, target: str) -> Attribute:
    """The attribute that `qualname` names in the loaded module.

    A trailing `.fget`, `.fset` or `.fdel` opens the property. Raises TargetError when there is none,
    UnsupportedTargetError for what a class only inherits, and for attributes of instances.
    """
    owner: ModuleType | type = module
    found: Attribute | None = None
    trail: Trail = ((sys.modules, module.__name__, module),)
    for name in qualname.split("."):
        if found is not None:
            if type(found.raw) is property and name in ACCESSORS:
                accessor = getattr(found.raw, name)
                if accessor is None:
                    raise TargetError(f"{target}: property {found.name} has no {name}", target=target)
                return found._replace(raw=accessor)
            owner = _as_owner(found, name, target)
        found = _own_attribute(owner, name, target, trail)
        trail = found.trail
    assert found is not None, qualname
    return found


def _as_owner(found: Attribute, name: str, target: str) -> type:
    raw = found.raw
    if isinstance(raw, type):
        return raw
    kind = type(raw)
    instead = f"{kind.__module__}.{kind.__qualname__}.{name}"
    raise UnsupportedTargetError(
        f"{target}: {found.name} is not a class but an instance of {kind.__qualname__}; "
        f"name the class's attribute instead, such as {instead}",
        target=target,
    )


def has_made_members(owner: object, name: str) -> bool:
    """Whether an enumeration runs its method `name` for its members only, all of which there are already."""
    if not isinstance(owner, enum.EnumMeta):
        return False
    if name == "__new__":
        # The one that stands there now is the enumeration's own, which looks members up.
        return True
    return name in ("__init__", "_generate_next_value_") and _has_members(owner)


def _has_members(owner: type) -> bool:
    derived: list[type] = type.__subclasses__(owner)
    if not isinstance(owner, enum.EnumMeta):
        return False
    # What a function makes, it makes anew with each call.
    lasting = [kind for kind in derived if "<locals>" not in kind.__qualname__]
    return bool(owner.__members__) or any(map(_has_members, lasting))


def still_leads(trail: Trail) -> bool:
    """Whether every look-up on the way still gives what it gave."""
    return all(namespace.get(name) is value for namespace, name, value in trail)


def code_qualname(qualname: str) -> str:
    """The qualified name that the code of `qualname` carries: no property suffix, private names unmangled."""
    names = qualname.split(".")
    if names[-1] in ACCESSORS and len(names) > 1:
        names.pop()
    for at in range(1, len(names)):
        mangled = f"_{names[at - 1].lstrip('_')}__"
        if names[at].startswith(mangled) and not names[at].endswith("__"):
            names[at] = names[at][len(mangled) - 2 :]
    return ".".join(names)


def _own_attribute(owner: ModuleType | type, name: str, target: str, trail: Trail) -> Attribute:
    namespace = vars(owner)
    if has_made_members(owner, name):
        raise UnsupportedTargetError(
            f"{target}: {name} of an enumeration makes its members when the class is created, and never "
            f"again; {_EARLY}",
            target=target,
        )
    for spelling in _spellings(owner, name):
        if spelling in namespace:
            raw = namespace[spelling]
            return Attribute(owner, spelling, raw, (*trail, (namespace, spelling, raw)))
    if isinstance(owner, type):
        own = f"class {owner.__qualname__}"
        if name in vars(owner).get("__dataclass_fields__", ()):
            raise UnsupportedTargetError(
                f"{target}: {name} is a field of the data{own}, whose __init__ has taken its default; "
                f"{_EARLY}",
                target=target,
            )
        for base in owner.__mro__[1:]:
            if name in vars(base):
                if (base.__module__, base.__qualname__) == (owner.__module__, owner.__qualname__):
                    raise UnsupportedTargetError(
                        f"{target}: {own} only inherits {name} from another class of its own name, which no "
                        f"name leads to; {_EARLY}",
                        target=target,
                    )
                raise UnsupportedTargetError(
                    f"{target}: {own} only inherits {name} from {base.__qualname__}, "
                    "and an edit there changes every subclass; to do that, name the owner: "
                    f"{base.__module__}.{base.__qualname__}.{name}",
                    target=target,
                )
    near = near_names(name, [known for known in namespace if isinstance(known, str)])
    raise TargetError(f"{target}: {_name_of(owner)} has no {name}{or_none(near)}", target=target, near=near)


def _spellings(owner: ModuleType | type, name: str) -> list[str]:
    if isinstance(owner, type) and name.startswith("__") and not name.endswith("__"):
        return [f"_{owner.__name__.lstrip('_')}{name}", name]
    return [name]


def _name_of(owner: ModuleType | type) -> str:
    return f"class {owner.__qualname__}" if isinstance(owner, type) else f"module {owner.__name__}"
