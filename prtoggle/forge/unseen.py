"""Whether code finds a new name without needing it: by its spelling, in a star import, behind a `try`.

Looked for in the texts of the repository. Where a text may find the name, it counts as found.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from prtoggle.definitions import last_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_EVERYTHING: Final = (
    r"\b(?:globals|vars|dir|locals)\s*\(|__dict__|__annotations__|get_type_hints|getmembers|sys\.modules"
    r"|(?<![.\w])(?:eval|exec)\s*\(|\bgetsource"
)
_BY_SPELLING: Final = re.compile(_EVERYTHING)
_ANY_SPELLING: Final = re.compile(
    _EVERYTHING
    + r"|\b(?:getattr|hasattr|setattr|delattr)\(\s*(?:[^,()]|\([^()]*\))+,\s*+(?![\"']\w*[\"']\s*[,)])"
    r"|\b(?:attrgetter|methodcaller)\s*\(\s*+(?![\"'])"
)
#: A module comes from where its name is not written down.
_ANY_MODULE: Final = re.compile(
    r"\bimport_module\b|__import__\b|\bsys\.modules\b|\bpkgutil\b|\bmodule_from_spec\b"
)
_STARRED: Final = re.compile(r"\bfrom\s+(\.*[\w.]*)\s+import\s*\(?\s*\*")
#: What is caught where a name is missing.
_MISSING: Final = {"AttributeError", "ImportError", "ModuleNotFoundError", "NameError"}
_CAUGHT: Final = _MISSING | {"Exception", "BaseException"}
#: Methods that the standard library looks for by their spelling.
_DUCKS: Final = frozenset(
    {"keys", "items", "close", "read", "readline", "readinto", "write", "flush", "fileno", "isatty", "seek"}
    | {"tell", "readable", "writable", "seekable", "send", "throw", "acquire", "release", "name", "mode"}
    | {"encoding", "errors", "getvalue", "tobytes", "tolist", "item", "default", "mro", "register"}
)
#: What test tools collect by the beginning of its name.
_COLLECTED: Final = re.compile(r"(?:[tT]est|pytest_|setup_|teardown_|setUp|tearDown|load_tests)")


@dataclass(frozen=True)
class Lookups:
    """Where a module's new names may be found.

    `before` and `after` are the module's texts, `texts` today's texts of the repository, `others` those
    without the module's own; `older` gives those from before the fix that spell a name.
    """

    before: str
    after: str
    module: str
    is_package: bool
    texts: Callable[[], Sequence[str]]
    others: Callable[[], Sequence[str]]
    older: Callable[[str], Sequence[str]]

    def find_in_module(self, name: str) -> bool:
        """Whether something may find a new name of the module."""
        return (
            _COLLECTED.match(name) is not None
            or self._is_spelt(name)
            or self._is_guarded(name)
            or self._is_wanted(name)
            or (not name.startswith("_") and any(map(self._takes_all, self.texts())))
            or self._is_listed()
        )

    def find_submodule(self, package: str, name: str) -> bool:
        """Whether something may find that a package has got a submodule."""
        mentioned = re.compile(rf"\b{re.escape(package)}\b")
        looking = [self.after, *self._looking] if _ANY_SPELLING.search(self.after) else self._looking
        return self._is_spelt(name) or self._is_guarded(name) or any(map(mentioned.search, looking))

    def find_member(self, name: str, owner: str) -> bool:
        """Whether something may find a new member of a class that has no bases."""
        every = self._every()
        return (
            name in _DUCKS
            or _COLLECTED.match(name) is not None
            or self._is_spelt(name)
            or self._is_guarded(name)
            or self._is_missed(name)
            or bool(self._looking or _ANY_SPELLING.search(self.after))
            or any(_asks_for(text, name) or _hands_on(text, owner) for text in every)
        )

    def find_subclasses(self) -> bool:
        """Whether something asks for the subclasses of a class."""
        return any("__subclasses__" in text for text in self._every())

    def find_imported(self, module: str) -> bool:
        """Whether something asks whether a module was imported."""
        return self._is_spelt(module)

    def _every(self) -> Sequence[str]:
        return (self.after, *self.texts())

    def _is_spelt(self, name: str) -> bool:
        quoted = re.compile(rf"[\"'](?:[\w.]+[.:])?{re.escape(name)}[\"']")
        return any(quoted.search(text) for text in self._every())

    def _is_guarded(self, name: str) -> bool:
        return any(_guards(text, name) for text in (self.before, *self.others()))

    def _is_wanted(self, name: str) -> bool:
        """Whether code that is older than the fix takes the name from the module: it gets by without."""
        stem = self.module.rpartition(".")[2]
        return any(
            (isinstance(node, ast.Attribute) and node.attr == name and last_name(node.value) == stem)
            or (isinstance(node, ast.ImportFrom) and any(alias.name == name for alias in node.names))
            for text in self.older(name)
            for node in ast.walk(_parsed(text) or ast.Module([], []))
        )

    def _is_missed(self, name: str) -> bool:
        """Whether code that is older than the fix reads an attribute of the name, which no class had."""
        texts = [self.before, *self.older(name)] if _stands_in(name, self.before) else self.older(name)
        nodes = [node for text in texts for node in ast.walk(_parsed(text) or ast.Module([], []))]
        had = any(
            getattr(node, "name", "") == name
            or (isinstance(node, ast.Attribute) and node.attr == name and isinstance(node.ctx, ast.Store))
            or (isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store))
            for node in nodes
        )
        return not had and any(isinstance(node, ast.Attribute) and node.attr == name for node in nodes)

    def _takes_all(self, text: str) -> bool:
        """Whether a text has a star import that may be of the module."""
        stem = self.module.rpartition(".")[2]
        return any(
            (not found.strip(".") and self.is_package) or (bool(stem) and found.rpartition(".")[2] == stem)
            for found in _STARRED.findall(text)
        )

    def _is_listed(self) -> bool:
        """Whether something lists the module's names, or gets one that it has put together."""
        if _BY_SPELLING.search(self.after):
            return True
        stem = re.escape(self.module.rpartition(".")[2])
        if not stem or not self._looking:
            return False
        if any(map(re.compile(rf"\b{stem}\b").search, self._looking)):
            return True
        handed_on = re.compile(rf"[(,=\[]\s*{stem}\s*[,)\]\n]")
        return any(_ANY_MODULE.search(text) or handed_on.search(text) for text in self.texts())

    @cached_property
    def _looking(self) -> list[str]:
        """The texts that may look names up without spelling them."""
        return [text for text in self.texts() if _ANY_SPELLING.search(text)]


def _stands_in(name: str, text: str) -> bool:
    return re.search(rf"\b{re.escape(name)}\b", text) is not None


def _parsed(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError):
        return None


def guarded_parts(tree: ast.AST) -> Iterator[ast.AST]:
    """Everything that stands where it is caught when a name or an attribute is missing."""
    for node in ast.walk(tree):
        for inner in _guarded(node):
            yield from ast.walk(inner)


def _guards(text: str, name: str) -> bool:
    """Whether a use of the name stands where its absence is caught."""
    if not ("except" in text or "suppress" in text) or not _stands_in(name, text):
        return False
    tree = _parsed(text)
    if tree is None:
        return True
    return any(_is_named(part, name) for part in guarded_parts(tree))


def _guarded(node: ast.AST) -> list[ast.stmt]:
    if isinstance(node, (ast.Try, ast.TryStar)):
        caught = [name for handler in node.handlers for name in _classes(handler.type)]
        return node.body if _CAUGHT & set(caught) else []
    if isinstance(node, (ast.With, ast.AsyncWith)):
        made = [item.context_expr for item in node.items if isinstance(item.context_expr, ast.Call)]
        known = {
            last_name(given) for call in made if last_name(call.func) == "suppress" for given in call.args
        }
        return node.body if _CAUGHT & known else []
    return []


def _classes(node: ast.expr | None) -> list[str]:
    if node is None:
        return ["BaseException"]
    return [last_name(item) for item in (node.elts if isinstance(node, ast.Tuple) else [node])]


def _is_named(node: ast.AST, name: str) -> bool:
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return any(alias.name.rpartition(".")[2] == name for alias in node.names)
    return isinstance(node, (ast.Name, ast.Attribute)) and last_name(node) == name


def _asks_for(text: str, name: str) -> bool:
    """Whether a protocol has the member: what has it is an instance."""
    if "Protocol" not in text or not _stands_in(name, text):
        return False
    tree = _parsed(text)
    return tree is None or any(
        isinstance(node, ast.ClassDef)
        and any(
            last_name(getattr(base, "value", base)) == "Protocol" or last_name(base) == "Protocol"
            for base in node.bases
        )
        and any(
            name in (getattr(item, "name", ""), last_name(getattr(item, "target", item)))
            for item in node.body
        )
        for node in ast.walk(tree)
    )


def _hands_on(text: str, owner: str) -> bool:
    """Whether the class is used for more than making and knowing its instances: it may be a base then."""
    if not _stands_in(owner, text):
        return False
    tree = _parsed(text)
    if tree is None:
        return True
    renamed = any(
        alias.name == owner and alias.asname not in (None, owner)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    )
    plain = {id(node) for parent in ast.walk(tree) for node in plain_uses(parent)}
    return renamed or any(
        isinstance(node, (ast.Name, ast.Attribute))
        and isinstance(node.ctx, ast.Load)
        and last_name(node) == owner
        and id(node) not in plain
        for node in ast.walk(tree)
    )


def plain_uses(parent: ast.AST) -> Iterator[ast.AST]:
    """The parts of a node at which a class is called, read from, or asked about."""
    if isinstance(parent, ast.Call):
        yield parent.func
        if last_name(parent.func) in ("isinstance", "issubclass", "cast"):
            for given in parent.args:
                yield from ast.walk(given)
    elif isinstance(parent, ast.Attribute):
        yield parent.value
    elif isinstance(parent, ast.ExceptHandler) and parent.type is not None:
        yield from ast.walk(parent.type)
    elif isinstance(parent, ast.MatchClass):
        yield parent.cls
    elif isinstance(parent, ast.Compare):
        yield from (parent.left, *parent.comparators)
    for note in (getattr(parent, "annotation", None), getattr(parent, "returns", None)):
        if isinstance(note, ast.expr):
            yield from ast.walk(note)
