"""What a call takes in beside its arguments, and a copy of all of it for the other run.

Inputs are the arguments, the variables of enclosing scopes that a traced function shares, and those global
variables of its module that it rebinds or that hold something that can be copied. Everything else that a
function reaches through globals, such as files, devices and objects of other modules, both runs share.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from prtoggle.trace.comparing import Comparison, NotComparedError
from prtoggle.trace.comparing_functions import content
from prtoggle.trace.copying import Copier, NotCopiedError
from prtoggle.trace.differences import MISSING
from prtoggle.trace.held import Held
from prtoggle.trace.kinds import can_change, is_all_members
from prtoggle.trace.libraries import is_library

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import CellType, FunctionType

    from prtoggle.trace.traced import Traced


#: What the interpreter, imports and the makers of classes look up in the dict itself.
_LOOKED_UP: Final = frozenset({"__builtins__", "__name__", "__package__", "__spec__", "__path__", "__file__"})
#: Bytes up to which a global object that is no container is copied; larger ones are shared, and watched.
_MAX_OBJECT: Final = 1 << 20


class _Namespace(dict[str, Any]):
    """Globals of the other run: copies and what it binds itself, in front of the module's own.

    The compiled code of a function looks a missing name up through `__missing__`, and stores into the dict
    itself, so that the module's own variables stay as they are.
    """

    def __init__(self, real: dict[str, Any]) -> None:
        super().__init__()
        self.real = real

    def __missing__(self, name: str) -> Any:
        return self.real[name]


class World:
    """The surroundings and arguments of one other run, copied before the program's own run begins."""

    def __init__(self, everybody: Sequence[Traced], max_bytes: int, classes: Sequence[type] = ()) -> None:
        """Copies what every traced function could change, for one may call the other.

        `classes` are those of the arguments, whose methods may run too. Raises NotCopiedError.
        """
        self._copier = Copier(max_bytes)
        self.held = Held(everybody, classes, self._copier)
        self._namespaces: dict[int, _Namespace] = {}
        self._globals: list[tuple[str, dict[str, Any]]] = []
        self._cells: list[tuple[str, CellType]] = []
        self._uncopied: list[tuple[str, Any]] = []
        for traced in everybody:
            self._copy_globals(traced)
            for name, cell in zip(traced.fixed.code.co_freevars, traced.cells, strict=True):
                with _named(f"variable {name} of the enclosing scope"):
                    self._copier.cell(cell)
                self._cells.append((name, cell))
        self.held.prepare(self._namespaces, _MAX_OBJECT)
        for traced in everybody:
            if "globals" in traced.names:
                # Whoever asks for the dict may look at all of its names.
                real = traced.function.__globals__
                self._namespaces[id(real)].update({**real, **self._namespaces[id(real)]})

    @property
    def counterparts(self) -> dict[int, Any]:
        """What was copied, by the id of the original."""
        memo = self._copier.memo
        return {key: value for key, value in memo.items() if key != id(memo)}

    @property
    def originals(self) -> list[object]:
        """What there are copies of."""
        return self._copier.originals

    def _copy_globals(self, traced: Traced) -> None:
        real = traced.function.__globals__
        names, objects = traced.globals_at_stake(), traced.objects_at_stake()
        if not names and not objects and "globals" not in traced.names:
            return
        namespace = self._namespaces.setdefault(id(real), _Namespace(real))
        for name in _LOOKED_UP & real.keys():
            namespace.setdefault(name, real[name])
        for name in sorted(names - namespace.keys()):
            if name in real:
                with _named(f"global variable {name}"):
                    namespace[name] = self._copier.copy(real[name])
            self._globals.append((name, real))
        for name in sorted(objects - namespace.keys()):
            value = real[name]
            made, refusal = self._copier.copy_if_possible(value, _MAX_OBJECT)
            if refusal is not None and can_change(value) and not is_all_members(value):
                raise NotCopiedError(f"global variable {name}: {refusal}")
            if made is not value:
                namespace[name] = made
                self._globals.append((name, real))
            elif refusal is not None or not is_library(type(value)):
                # What a library knows by its name, such as a logger, is not the program's own.
                self._uncopied.append((name, value))

    def uncopied(self) -> list[tuple[str, Any]]:
        """Name and object of all that stands for itself in the other run although it can change."""
        named = [*self._uncopied, *self.held.watched]
        return [*named, *((type(value).__qualname__, value) for value in self._copier.uncopied)]

    def check_copies(self) -> None:
        """Raises NotCopiedError when a class leaves out of its copies what would then be a difference."""
        for value, made in self._copier.by_own_rules:
            try:
                found = Comparison(self.counterparts, self.originals).first("", value, made)
            except NotComparedError:
                continue
            if found is not None:
                kind = type(value).__qualname__
                raise NotCopiedError(f"the copy that {kind} makes of itself differs: {kind}{found.where}")

    def copied(self, what: str, value: Any) -> Any:
        """The copy of one argument."""
        with _named(what):
            return self._copier.copy(value)

    def function(self, traced: Traced) -> FunctionType:
        """The other variant of a function, in this world."""
        real = traced.function.__globals__
        cells = tuple(self._copier.cell(cell) for cell in traced.cells)
        return traced.other_function(self._namespaces.get(id(real), real), cells)

    def surroundings(self) -> Iterator[tuple[str, Any, Any]]:
        """Name, value in the program's own run and value in the other, of all that both could change."""
        yield from self.held.swaps.found
        for name, cell in self._cells:
            yield name, content(cell), content(self._copier.cell(cell))
        for name, real in self._globals:
            yield name, real.get(name, MISSING), dict.get(self._namespaces[id(real)], name, MISSING)
        known = {(id(real), name) for name, real in self._globals}
        for namespace in self._namespaces.values():
            # Bound through `globals()`; what the program's own run binds so is watched.
            for name in namespace.keys() - _LOOKED_UP:
                if (id(namespace.real), name) not in known:
                    yield name, namespace.real.get(name, MISSING), namespace[name]


class _named:  # noqa: N801  # a context manager that reads as a verb
    """Says in the message what could not be copied."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        return

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if isinstance(error, NotCopiedError):
            raise NotCopiedError(f"{self._what}: {error}") from error.__cause__
