"""Copies of what a call takes in, so that a second run of the function cannot touch what the program holds.

One `Copier` makes all copies of one call: what was one object is one object again, however many ways lead
to it. It goes further than `copy.deepcopy`, which hands on functions with their cells, bound built-in methods
and weak references as they are: a call through those would reach the program's own objects. It also counts
bytes, and refuses what a copy would do harm to.
"""

from __future__ import annotations

import copyreg
import itertools
import sys
import weakref
from contextlib import nullcontext
from types import BuiltinFunctionType, CellType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any, Final

from prtoggle.trace.constants import CONSTANTS
from prtoggle.trace.counting import copy_of, unwarned
from prtoggle.trace.kind_names import kind_of, said_by
from prtoggle.trace.libraries import is_library, is_tensor
from prtoggle.trace.members import is_known_by_name, members_of, restore, restore_causes

if TYPE_CHECKING:
    from collections.abc import Callable

#: What a class can define for being copied; what it leaves out is no difference that a run made.
_RULES: Final = ("__deepcopy__", "__reduce__", "__reduce_ex__", "__getstate__", "__setstate__")


class NotCopiedError(Exception):
    """A value that no faithful and harmless copy can be made of; the message says which and why."""


class Copier:
    """Deep copies with one memory, within a number of bytes."""

    def __init__(self, max_bytes: int) -> None:
        self._left = max_bytes
        self._max_bytes = max_bytes
        # Id of an original -> its copy, in the form that `__deepcopy__` methods expect.
        self.memo: dict[int, Any] = {}
        # They live as long as the memory: another object could take the place of one otherwise.
        self.originals: list[object] = []
        self._storages: set[int] = set()
        #: Objects that say of themselves that they are their own copies, although they can change.
        self.uncopied: list[object] = []
        #: Originals and copies of classes that define themselves what a copy holds.
        self.by_own_rules: list[tuple[object, object]] = []

    def copy(self, value: Any) -> Any:
        """The copy of `value`, or `value` itself where nothing of it can change.

        Raises NotCopiedError. What the classes of the values define for being copied is called.
        """
        try:
            return self._copied(value)
        except NotCopiedError:
            raise
        except RecursionError:
            raise NotCopiedError(f"{kind_of(value)} is nested too deeply to be copied") from None
        except Exception as error:  # whatever the classes of the program raise when copied
            raise NotCopiedError(f"{kind_of(value)} cannot be copied: {said_by(error)}") from error

    def copy_if_possible(self, value: Any, max_bytes: int) -> tuple[Any, str | None]:
        """The same as `copy` within fewer bytes; where that fails, `value` itself and why."""
        known, left, storages = dict(self.memo), self._left, set(self._storages)
        counts = len(self.uncopied), len(self.by_own_rules)
        self._left = min(left, max_bytes)
        try:
            made = self.copy(value)
        except NotCopiedError as reason:
            # Half of a copy must not come to stand for anything. The originals stay: their ids were seen.
            self.memo.clear()
            self.memo.update(known)
            del self.uncopied[counts[0] :], self.by_own_rules[counts[1] :]
            self._left, self._storages = left, storages
            return value, str(reason)
        self._left += left - min(left, max_bytes)
        return made, None

    def _copied(self, value: Any) -> Any:
        kind = type(value)
        if kind in CONSTANTS or isinstance(value, type):
            return value
        known = self.memo.get(id(value), self)
        if known is not self:
            return known
        self._pay(value)
        maker = _MAKERS.get(kind)
        if maker is not None:
            made = maker(self, value)
        elif isinstance(value, ModuleType):
            raise NotCopiedError(f"module {value.__name__} cannot be copied")
        else:
            made = self._copied_object(value, kind)
        if made is not value:
            self.remember(value, made)
        return made

    def remember(self, value: object, made: object) -> None:
        """Let `made` stand for `value` in the other run."""
        self.memo[id(value)] = made
        self.originals.append(value)

    def _pay(self, value: Any) -> None:
        self._left -= self._size(value)
        if self._left < 0:
            raise NotCopiedError(
                f"the inputs are larger than the {self._max_bytes} bytes that --max-copy allows"
            )

    def _size(self, value: Any) -> int:
        """Bytes that a copy of the value itself takes; of tensors that share a storage, only the first."""
        if is_tensor(value):
            try:
                storage = value.untyped_storage()
            except (RuntimeError, NotImplementedError, AttributeError):
                return int(value.numel()) * int(value.element_size())
            key = storage.data_ptr()
            if key in self._storages:
                return 0
            self._storages.add(key)
            return int(storage.nbytes())
        size = getattr(type(value), "nbytes", None)
        return int(value.nbytes) if size is not None else sys.getsizeof(value, 64)

    def _copied_object(self, value: Any, kind: type) -> Any:
        if type(getattr(kind, "__del__", None)) is FunctionType:
            raise NotCopiedError(f"{kind_of(value)} has a finalizer, which a copy would run a second time")
        if is_known_by_name(value):
            return self._noted(value, value)
        own: Callable[[Any, dict[int, Any]], Any] | None = getattr(kind, "__deepcopy__", None)
        if own is not None:
            return self._noted(value, own(value, self.memo))
        with unwarned() if kind.__module__ == "itertools" else nullcontext():
            return self._reduced(value, kind)

    def _reduced(self, value: Any, kind: type) -> Any:
        reducer = copyreg.dispatch_table.get(kind)
        reduced = value.__reduce_ex__(4) if reducer is None else reducer(value)
        # A name: the object is a global, known by it.
        return self._noted(value, value if isinstance(reduced, str) else self._rebuilt(value, *reduced))

    def _noted(self, value: Any, made: Any) -> Any:
        if made is value:
            # What is known by its name or registered somewhere, such as a logger, is not the program's own.
            if (hasattr(value, "__dict__") or members_of(value)) and not is_library(type(value)):
                self.uncopied.append(value)
            return value
        rules = (getattr(type(value), name, None) for name in _RULES)
        if not is_tensor(value) and any(type(rule) is FunctionType for rule in rules):
            self.by_own_rules.append((value, made))
        return made

    def _rebuilt(  # the parts of a reduced value, as the pickle protocol orders them
        self,
        value: Any,
        make: Callable[..., Any],
        arguments: tuple[Any, ...],
        state: Any = None,
        items: Any = None,
        pairs: Any = None,
        set_state: Callable[[Any, Any], object] | None = None,
    ) -> Any:
        made = make(*(self._copied(argument) for argument in arguments))
        if made is value:
            return value
        self.remember(value, made)
        if state is not None:
            # The state is made for this one purpose; nobody else may get its place in memory meanwhile.
            self.originals.append(state)
            state = self._copied(state)
            if set_state is not None:
                set_state(made, state)
            elif hasattr(made, "__setstate__"):
                made.__setstate__(state)
            else:
                restore(made, state)
        if isinstance(value, BaseException):
            restore_causes(made, value, self._copied)
        for item in items or ():
            made.append(self._copied(item))
        for key, item in pairs or ():
            made[self._copied(key)] = self._copied(item)
        return made

    def _copied_list(self, value: list[Any]) -> list[Any]:
        made: list[Any] = []
        self.remember(value, made)
        made.extend(item if type(item) in CONSTANTS else self._copied(item) for item in value)
        return made

    def _copied_dict(self, value: dict[Any, Any]) -> dict[Any, Any]:
        made: dict[Any, Any] = {}
        self.remember(value, made)
        for key, item in value.items():
            made[self._copied(key)] = item if type(item) in CONSTANTS else self._copied(item)
        return made

    def _copied_tuple(self, value: tuple[Any, ...]) -> tuple[Any, ...]:
        made = [self._copied(item) for item in value]
        # A tuple that holds itself, through a list, has been made on the way.
        known = self.memo.get(id(value))
        if known is not None:
            return known  # type: ignore[no-any-return]  # the copy of a tuple
        same = all(one is other for one, other in zip(value, made, strict=True))
        return value if same else tuple(made)

    def _copied_set(self, value: set[Any] | frozenset[Any]) -> Any:
        made = [self._copied(item) for item in value]
        same = all(one is other for one, other in zip(value, made, strict=True))
        return value if same and type(value) is frozenset else type(value)(made)

    def _copied_method(self, value: MethodType) -> MethodType:
        return MethodType(self._copied(value.__func__), self._copied(value.__self__))

    def _copied_static(self, value: staticmethod[Any, Any]) -> Any:
        made = self._copied(value.__func__)
        return value if made is value.__func__ else staticmethod(made)

    def _copied_builtin(self, value: BuiltinFunctionType) -> Any:
        owner = value.__self__
        if owner is None or isinstance(owner, (ModuleType, type)):
            return value
        return getattr(self._copied(owner), value.__name__)

    def _copied_function(self, value: FunctionType) -> FunctionType:
        # Defaults can hold what the function collects.
        defaults, named = self._copied(value.__defaults__), self._copied_pairs(value.__kwdefaults__)
        if not value.__closure__ and defaults is value.__defaults__ and named is value.__kwdefaults__:
            return value
        cells = [self._empty_cell(cell) for cell in value.__closure__ or ()]
        shared = tuple(cell for cell, _ in cells)
        made = FunctionType(value.__code__, value.__globals__, value.__name__, defaults, shared)
        made.__kwdefaults__ = named
        made.__qualname__ = value.__qualname__
        made.__dict__.update(value.__dict__)
        # The function may stand in one of its own cells.
        self.remember(value, made)
        for cell, (filled, is_new) in zip(value.__closure__ or (), cells, strict=True):
            if is_new:
                self._fill(cell, filled)
        return made

    def _copied_pairs(self, pairs: dict[str, Any] | None) -> dict[str, Any] | None:
        made = {name: self._copied(item) for name, item in (pairs or {}).items()}
        return made if any(made[name] is not item for name, item in (pairs or {}).items()) else pairs

    def cell(self, cell: CellType) -> CellType:
        """The copy of a variable that functions share; one that is not set yet stays so."""
        made, is_new = self._empty_cell(cell)
        if is_new:
            self._fill(cell, made)
        return made

    def _empty_cell(self, cell: CellType) -> tuple[CellType, bool]:
        known = self.memo.get(id(cell))
        if known is not None:
            return known, False
        made = CellType()
        self.remember(cell, made)
        return made, True

    def _fill(self, cell: CellType, made: CellType) -> None:
        try:
            content = cell.cell_contents
        except ValueError:
            return
        made.cell_contents = self._copied(content)

    def _copied_reference(self, value: weakref.ref[Any]) -> Any:
        referent = value()
        if referent is None:
            return value
        made = self._copied(referent)
        # The memory holds the copy for as long as the comparison takes.
        return value if made is referent else weakref.ref(made)


_MAKERS: Final[dict[type, Callable[[Copier, Any], Any]]] = {
    list: Copier._copied_list,  # noqa: SLF001  # its own methods, by type
    dict: Copier._copied_dict,  # noqa: SLF001
    tuple: Copier._copied_tuple,  # noqa: SLF001
    set: Copier._copied_set,  # noqa: SLF001
    frozenset: Copier._copied_set,  # noqa: SLF001
    MethodType: Copier._copied_method,  # noqa: SLF001
    BuiltinFunctionType: Copier._copied_builtin,  # noqa: SLF001
    FunctionType: Copier._copied_function,  # noqa: SLF001
    CellType: Copier.cell,
    weakref.ref: Copier._copied_reference,  # noqa: SLF001
    itertools.count: lambda copier, value: copy_of(value) or copier._copied_object(value, itertools.count),  # noqa: SLF001
    staticmethod: Copier._copied_static,  # noqa: SLF001
    # Nothing of it can change, and it is known by which one it is.
    object: lambda _copier, value: value,
}
