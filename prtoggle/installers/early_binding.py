"""Which loaded modules took the value of a constant when they were imported, read from their source.

An int or a string says nothing by its identity: `128` in another module may be the constant, imported early,
or a number of its own. The source tells: `from module import NAME as OTHER` and `OTHER = module.NAME` are
names that can be bound anew. Any other reading at import time (`DOUBLE = NAME * 2`, a default argument,
`if NAME:`) has left something behind that a new value does not reach.
"""

from __future__ import annotations

import ast
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Final

from prtoggle.errors import UnsupportedTargetError
from prtoggle.installers.class_making import derived, may_read, taken_by
from prtoggle.installers.import_time import ImportTime, aliases, import_time
from prtoggle.installers.stands_for import StandsFor, evaluated_text, read_by_text, resolved
from prtoggle.source.source_text import decode_source

if TYPE_CHECKING:
    from collections.abc import Iterator

_STAR_IMPORT: Final = re.compile(rb"from[\s.]+(?:\w+\.)*(\w*)\s*import\s*\*")
_FROM_PACKAGE: Final = re.compile(rb"from\s*\.+\s*import")


@dataclass(frozen=True, slots=True)
class Reading:
    """A place where the value was used at import time for something that does not follow it."""

    module: str
    line: int
    text: str
    # Whether it only made something else hold the very object: an attribute, an item.
    is_binding: bool = False

    def __str__(self) -> str:
        return f"{self.module}, line {self.line}: {self.text}"


@dataclass(frozen=True, slots=True)
class _Binding:
    """A constant where it is defined or bound again: `vars(owner)[name]`."""

    owner: ModuleType | type
    name: str


@dataclass(slots=True)
class EarlyBindings:
    """The result: other names that hold the value, with their owners, and readings that cannot follow."""

    names: list[tuple[ModuleType | type, str]] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)


def find(module: ModuleType, owner: ModuleType | type, name: str, old: object) -> EarlyBindings:
    """Who took `vars(owner)[name]`, which is `old` and defined in `module`, at import time. Imports nothing.

    Modules without source hold copies that nobody can tell; they are left out. Reads the files of all loaded
    modules: some 0.1 ms for each, and milliseconds where one mentions the name.
    """
    return _Search(module, _Binding(owner, name), old).run()


class _Search:
    def __init__(self, module: ModuleType, origin: _Binding, old: object) -> None:
        self._old = old
        self._home = module
        self._bindings = [origin]
        self._sources: dict[str, _ModuleSource] = {}
        self._result = EarlyBindings()
        self._classes: dict[type, re.Pattern[bytes]] = {}

    def run(self) -> EarlyBindings:
        readings: set[Reading] = set()
        # A binding in one module may be imported from there by the next, so the list grows while it is read.
        for binding in self._bindings:
            for module in _modules():
                if (source := self._source(module, binding)) is not None:
                    for bound, reading in source.bound_from(binding):
                        self._add(bound)
                        if reading is not None and not self._follows(bound):
                            readings.add(reading)
                    readings.update(source.readings(binding))
        self._result.readings = sorted(readings, key=lambda reading: (reading.module, reading.line))
        return self._result

    def _add(self, binding: _Binding) -> None:
        if binding not in self._bindings:
            self._bindings.append(binding)
            if self._holds(binding):
                self._result.names.append((binding.owner, binding.name))

    def _holds(self, binding: _Binding) -> bool:
        return vars(binding.owner).get(binding.name) is self._old

    def _follows(self, binding: _Binding) -> bool:
        """Whether binding the name anew reaches everything that has come of it there."""
        taken = isinstance(binding.owner, type) and taken_by(binding.owner, binding.name) is not None
        return self._holds(binding) and not taken

    def _source(self, module: ModuleType, binding: _Binding) -> _ModuleSource | None:
        """The module's statements, where its text has the name in it or may take it by a star import."""
        source = self._sources.get(module.__name__)
        if source is None:
            source = self._sources[module.__name__] = _ModuleSource(module)
        return source if source.mentions(binding, self._class_names(binding.owner)) else None

    def _class_names(self, owner: ModuleType | type) -> re.Pattern[bytes] | None:
        """Finds the names that the class, or one that derives from it, goes by in any module."""
        if not isinstance(owner, type):
            return None
        if owner not in self._classes:
            kinds = {owner, *derived(owner)}
            ids = {id(kind) for kind in kinds}
            names = {kind.__name__ for kind in kinds}
            for module in _modules():
                names.update(name for name, value in list(vars(module).items()) if id(value) in ids)
            self._classes[owner] = re.compile(rb"\b(%s)\b" % "|".join(map(re.escape, names)).encode())
        return self._classes[owner]


class _ModuleSource:
    """The statements of one module that ran when it was imported."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module
        self._bytes = _read(module)
        self._lines: list[str] = []
        self._visits: ImportTime | None = None
        self._names: StandsFor | None = None

    def mentions(self, binding: _Binding, classes: re.Pattern[bytes] | None) -> bool:
        """Whether the text may take the binding's value: quick, and never wrongly no.

        `classes` finds the names of the class that the binding is in.
        """
        if binding.owner is self._module:
            return True
        text, name = self._bytes, binding.name.encode()
        if isinstance(binding.owner, type):
            is_home = binding.owner.__module__ == self._module.__name__
            is_read = is_home or (name in text and _has(rb"[.\"']\s*" + name + rb"\b", text))
            return name in text and is_read and (classes is None or classes.search(text) is not None)
        last = binding.owner.__name__.rpartition(".")[2].encode()
        if name in text and _has(rb"\b" + name + rb"\b", text) and self._knows(binding.owner, last):
            return True
        return b"*" in text and any(found[1] in (last, b"") for found in _STAR_IMPORT.finditer(text))

    def _knows(self, owner: ModuleType, last: bytes) -> bool:
        """Whether the text has the last part of the module's name, or the module is at hand without it."""
        return (
            last in self._bytes
            or _FROM_PACKAGE.search(self._bytes) is not None
            or any(value is owner for value in list(vars(self._module).values()))
        )

    @property
    def _visited(self) -> ImportTime:
        if self._visits is None:
            try:
                source = decode_source(self._bytes, self._module.__name__)
                tree = ast.parse(source.text)
                self._lines = source.lines
            except (SyntaxError, UnsupportedTargetError):
                # What is on disk is not what was imported; its names cannot be told from it.
                tree = ast.Module([], [])
            self._visits = import_time(tree, is_main=self._module.__name__ == "__main__")
        return self._visits

    def bound_from(self, binding: _Binding) -> Iterator[tuple[_Binding, Reading | None]]:
        """Names that an import or a plain assignment made hold the binding's value.

        With the reading that it counts as when the name holds something else by now; a star import and a name
        that was deleted count as none.
        """
        for imported, in_class in self._visited.imports:
            if self._is_from(imported, binding) and not in_class:
                for alias in imported.names:
                    if alias.name in (binding.name, "*"):
                        bound = _Binding(self._module, alias.asname or binding.name)
                        harmless = alias.name == "*" or bound.name not in vars(self._module)
                        yield bound, None if harmless else self._reading(imported.lineno)
        for expression, statement in self._visited.reads:
            if self._reads(expression, statement, binding):
                owner = self._scope_of(statement)
                for name in aliases(expression, statement) if owner is not None else ():
                    yield _Binding(owner or self._module, name), self._reading(statement.lineno)

    def readings(self, binding: _Binding) -> Iterator[Reading]:
        """Uses of the binding's value at import time other than those that only bind it again."""
        for expression, statement in self._visited.reads:
            if self._reads(expression, statement, binding):
                if aliases(expression, statement) and self._scope_of(statement) is not None:
                    continue
                is_binding = isinstance(statement, ast.Assign) and statement.value is expression
                yield self._reading(expression.lineno, is_binding=is_binding)
        for imported, in_class in self._visited.imports:
            if in_class and self._is_from(imported, binding):
                yield self._reading(imported.lineno)

        yield from self._readings_by_text(binding)
        if isinstance(binding.owner, type) and binding.owner.__module__ == self._module.__name__:
            for decorator in self._visited.decorators.get(tuple(binding.owner.__qualname__.split(".")), ()):
                called = decorator.func if isinstance(decorator, ast.Call) else decorator
                if any(may_read(found, binding.name) for found in self._stands_for(called)):
                    yield self._reading(decorator.lineno)

    def _readings_by_text(self, binding: _Binding) -> Iterator[Reading]:
        """Uses by a name that is a string: `getattr`, a look-up in a namespace, evaluated text."""
        word = rf"\b{re.escape(binding.name)}\b"
        for asked, statement in self._visited.asked:
            if isinstance(asked, ast.Call) and re.search(word, evaluated_text(asked)):
                yield self._reading(asked.lineno)
                continue
            read = read_by_text(asked)
            if read is None or read[1].rpartition(".")[2] != binding.name:
                continue
            if read[0] is None:
                found = binding.owner in (self._module, self._scope_of(statement))
            else:
                found = self._is_of(self._stands_for(read[0]), binding) or "." in read[1]
            if found:
                yield self._reading(asked.lineno)

    def _reading(self, line: int, *, is_binding: bool = False) -> Reading:
        return Reading(self._module.__name__, line, self._lines[line - 1].strip(), is_binding)

    def _scope_of(self, statement: ast.stmt) -> ModuleType | type | None:
        """The module, or the class in whose body the statement stands; None for a class that is gone."""
        owner: object = self._module
        for name in self._visited.scopes.get(statement, ()):
            owner = vars(owner).get(name) if isinstance(owner, (ModuleType, type)) else None
        return owner if isinstance(owner, (ModuleType, type)) else None

    def _is_from(self, statement: ast.ImportFrom, binding: _Binding) -> bool:
        name = resolved(self._module, "." * statement.level + (statement.module or ""))
        names = {alias.name for alias in statement.names}
        return sys.modules.get(name) is binding.owner and bool(names & {binding.name, "*"})

    def _reads(self, expression: ast.expr, statement: ast.stmt, binding: _Binding) -> bool:
        if isinstance(expression, ast.Name):
            # A bare name is read from the class body that it stands in, or from the module.
            return expression.id == binding.name and binding.owner in (
                self._module,
                self._scope_of(statement),
            )
        assert isinstance(expression, ast.Attribute), expression
        return expression.attr == binding.name and self._is_of(self._stands_for(expression.value), binding)

    def _stands_for(self, expression: ast.expr) -> list[object]:
        if self._names is None:
            self._names = StandsFor(self._module, self._visited)
        return self._names.of(expression)

    def _is_of(self, bases: list[object], binding: _Binding) -> bool:
        """Whether an attribute of that name, of one of `bases`, is the binding."""
        if not isinstance(binding.owner, type):
            return any(base is binding.owner for base in bases)
        return any(
            next((kind for kind in base.__mro__ if binding.name in vars(kind)), None) is binding.owner
            for base in bases
            if isinstance(base, type)
        )


def _has(pattern: bytes, text: bytes) -> bool:
    return re.search(pattern, text) is not None


def _modules() -> list[ModuleType]:
    return [module for module in list(sys.modules.values()) if isinstance(module, ModuleType)]


def _read(module: ModuleType) -> bytes:
    """The module's source as it is on disk; empty when it has none."""
    file = getattr(module, "__file__", None)
    if not isinstance(file, str) or not file.endswith(".py"):
        return b""
    try:
        return Path(file).read_bytes()
    except OSError:
        return b""
