"""Whether two classes are one: a function that makes a class makes another one in each run."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Final

from prtoggle.trace.sameness import is_made_by_a_call

if TYPE_CHECKING:
    from prtoggle.trace.comparing import Comparison

#: Names in a class that say nothing of what it does.
_NO_PART: Final = frozenset({"__dict__", "__weakref__", "__firstlineno__", "_abc_impl"})
_PLACES: Final = (types.MemberDescriptorType, types.GetSetDescriptorType)


def are_one_class(comparison: Comparison, ours: type, theirs: type) -> bool:
    """Whether both are one class; or two that no name leads to, alike in all that they define."""
    if ours is theirs or (ours, theirs) in comparison.classes:
        return True
    if type(ours) is not type(theirs) or not (is_made_by_a_call(ours) and is_made_by_a_call(theirs)):
        return False
    named = [(kind.__module__, kind.__qualname__, len(kind.__bases__)) for kind in (ours, theirs)]
    if named[0] != named[1]:
        return False
    pairs = zip(ours.__bases__, theirs.__bases__, strict=True)
    if not all(are_one_class(comparison, one, other) for one, other in pairs):
        return False
    # What it defines may name the class itself.
    comparison.classes.add((ours, theirs))
    same = _define_the_same(comparison, ours, theirs)
    if not same:
        comparison.classes.remove((ours, theirs))
    return same


def _define_the_same(comparison: Comparison, ours: type, theirs: type) -> bool:
    mine, other = (
        {name: item for name, item in vars(kind).items() if name not in _NO_PART} for kind in (ours, theirs)
    )
    return mine.keys() == other.keys() and not any(
        comparison.differs(name, item, other[name])
        for name, item in mine.items()
        if not isinstance(item, _PLACES)
    )
