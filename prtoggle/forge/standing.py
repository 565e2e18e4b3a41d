"""Whether a statement that a fix added may stay when the fix goes out: only where it provably has no effect.

An effect is whatever can be seen without using the names that the statement binds: a call, an import that
runs a module, a name that hides another one or that is found by its spelling, an entry of a class.
"""

from __future__ import annotations

import ast
import builtins
import sys
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from prtoggle.definitions import FunctionNode, imported_module, last_name
from prtoggle.errors import PrToggleError
from prtoggle.forge.inert import Inert, targets_of
from prtoggle.forge.unseen import Lookups
from prtoggle.target import dotted_prefixes, find_module

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

ScopeNode = ast.Module | ast.ClassDef
_MADE_UP: Final = {"__getattr__", "__getattribute__"}
#: Submodules that every process has.
_RUN_AT_START: Final = frozenset({"os.path", "collections.abc"})


class Surroundings(NamedTuple):
    """What is known of a module's place: its name, what else is a module, and the sources around it.

    `texts` are those of the repository as they are today, `others` the same without the module's own, `older`
    those from before the fix that spell a name.
    """

    module: str = ""
    is_package: bool = False
    is_module: Callable[[str], bool] = lambda _: False
    texts: Callable[[], Sequence[str]] = tuple
    others: Callable[[], Sequence[str]] = tuple
    older: Callable[[str], Sequence[str]] = lambda _: ()


@dataclass(slots=True)
class Standing:
    """What has to be known of a module and its repository to let a new statement stand.

    `texts` are both texts of the module. `is_module` knows the modules by their dotted names; `lookups` where
    names may be found. `lenient` lets an import stand that may run a module, and a logger.
    """

    before: ast.Module
    after: ast.Module
    texts: tuple[str, str]
    surroundings: Surroundings
    lenient: bool = False
    inert: Inert = field(init=False)
    _lookups: Lookups = field(init=False)
    _loaded: set[str] = field(default_factory=set, init=False)

    def __post_init__(self) -> None:
        """Modules that are imported before the fix, and by what the module is part of."""
        known = self.surroundings
        self.inert = Inert(self.after, lenient=self.lenient)
        self._lookups = Lookups(
            *self.texts, known.module, known.is_package, known.texts, known.others, known.older
        )
        self._loaded = set(dotted_prefixes(known.module))
        for node in self.before.body:
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                for alias in node.names:
                    self._loaded |= set(self._run_by(node, alias))

    def strict(self) -> Standing:
        """The same, without leniency."""
        return replace(self, lenient=False) if self.lenient else self

    def may_stay(self, node: ast.stmt, old: ScopeNode, new: ScopeNode) -> bool:
        """Whether the statement, new in the scope, does nothing that would be missed or noticed."""
        owner = new if isinstance(new, ast.ClassDef) else None
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            return owner is None and all(self._import_stays(node, alias) for alias in node.names)
        if isinstance(node, ast.If) and _is_for_typing(node):
            return owner is None
        if isinstance(node, (FunctionNode, ast.ClassDef)):
            names = [node.name]
        elif isinstance(node, (ast.Assign, ast.AnnAssign)) and owner is None:
            names = [target.id for target in targets_of(node) if isinstance(target, ast.Name)]
            if len(names) != len(targets_of(node)):
                return False
        else:
            return isinstance(node, ast.Pass) or (
                isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            )
        if isinstance(node, ast.ClassDef) and node.bases and self._lookups.find_subclasses():
            return False
        there = bound(old)
        return self.inert.is_inert(node) and all(
            name not in there and not _is_dunder(name) and self._is_unseen(name, owner) for name in names
        )

    def _is_unseen(self, name: str, owner: ast.ClassDef | None) -> bool:
        """Whether nothing finds the name but code that needs it."""
        scope = self.before if owner is None else owner
        if _MADE_UP & {getattr(node, "name", "") for node in scope.body}:
            # What is not there is made up by a function: then the new name hides that.
            return False
        if owner is None:
            part = self.surroundings.is_module(f"{self.surroundings.module}.{name}")
            return not part and not hasattr(builtins, name) and not self._lookups.find_in_module(name)
        if owner.bases or owner.keywords or not all(map(self.inert.is_silent, owner.decorator_list)):
            return False
        hides = name.startswith("_") and name.endswith("_")
        return not hides and not self._lookups.find_member(name, owner.name)

    def _import_stays(self, node: ast.Import | ast.ImportFrom, alias: ast.alias) -> bool:
        if getattr(node, "module", "") == "__future__" or alias.name == "*":
            return False
        if (key := import_key(node, alias)) in {
            import_key(other, one)
            for other in self.before.body
            if isinstance(other, (ast.Import, ast.ImportFrom))
            for one in other.names
        }:
            return True
        name = key[3].partition(".")[0]
        hides = name in bound(self.before) and not _brings_a_part(node, alias, self.before)
        if hides or hasattr(builtins, name):
            return False
        return self.lenient or all(map(self._runs_unnoticed, self._run_by(node, alias)))

    def _runs_unnoticed(self, module: str) -> bool:
        """Whether it makes no difference that an import runs the module: it has run, or nobody can tell."""
        if module in self._loaded or module in _RUN_AT_START:
            return True
        package, _, name = module.rpartition(".")
        if module.partition(".")[0] not in sys.stdlib_module_names or self._lookups.find_imported(module):
            return False
        return not package or not self._lookups.find_submodule(package.partition(".")[0], name)

    def _run_by(self, node: ast.AST, alias: ast.alias) -> Iterator[str]:
        """The modules that an import runs where nobody has done so yet."""
        if isinstance(node, ast.Import):
            yield from dotted_prefixes(alias.name)
        elif isinstance(node, ast.ImportFrom):
            known = self.surroundings
            base = imported_module(node, known.module, is_package=known.is_package)
            yield from dotted_prefixes(base) if base else ()
            whole = f"{base}.{alias.name}" if base else alias.name
            if known.is_module(whole) or _is_of_the_library(whole):
                yield whole


def import_key(node: ast.Import | ast.ImportFrom, alias: ast.alias) -> tuple[str, int, str, str]:
    """What an import of one name is, whatever shares its statement: module, level, name, what it binds."""
    if isinstance(node, ast.Import):
        return ("", -1, alias.name, alias.asname or alias.name)
    return (node.module or "", node.level, alias.name, alias.asname or alias.name)


def bound(scope: ScopeNode) -> set[str]:
    """All names that the statements of a scope bind, in its branches too."""
    names: set[str] = set()
    pending: list[ast.AST] = list(scope.body)
    while pending:
        node = pending.pop()
        if isinstance(node, (FunctionNode, ast.ClassDef)):
            names.add(node.name)
            continue
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            names.add(node.id)
        pending += ast.iter_child_nodes(node)
    return names


def _is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _is_for_typing(node: ast.If) -> bool:
    """Whether a branch holds imports for type checkers only, and none for the rest."""
    imports = all(isinstance(item, (ast.Import, ast.ImportFrom)) for item in node.body)
    return last_name(node.test) == "TYPE_CHECKING" and imports and not node.orelse


def _brings_a_part(node: ast.Import | ast.ImportFrom, alias: ast.alias, before: ast.Module) -> bool:
    """Whether `import a.b` adds to an `import a` that is there: both bind the same package."""
    top = alias.name.partition(".")[0]
    return (
        isinstance(node, ast.Import)
        and alias.asname is None
        and any(
            isinstance(other, ast.Import)
            and any(one.asname is None and one.name.partition(".")[0] == top for one in other.names)
            for other in before.body
        )
    )


def _is_of_the_library(module: str) -> bool:
    """Whether a dotted name is a submodule of the standard library; nothing of it is imported."""
    top = module.partition(".")[0]
    if top not in sys.stdlib_module_names or "." not in module:
        return False
    try:
        return find_module(module).name == module
    except PrToggleError:
        return False
