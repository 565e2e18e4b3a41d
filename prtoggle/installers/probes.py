"""Probes that tell once that a function was called or a statement reached, and then take themselves out.

A probe is one statement in the syntax tree, so the compiler makes the code and line numbers stay. Once a
probe has told what it had to, the function's code is exchanged for one without it: the plain code when
every probe of the function was hit, else a form of it with only the open probes. That also holds for
functions that nobody registered (born with their module, nested, methods of classes made in functions):
they are found through their code object.

    installed: called? reached?  --hit-->  reached?  --hit-->  plain

A probe that is hit for the first time only tells; the exchange waits for its second hit, because one call
often hits all probes, and then the plain code is due at once.
"""

from __future__ import annotations

import ast
import builtins
import gc
import itertools
import os
import threading
import weakref
from dataclasses import dataclass, field
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, Final

from prtoggle.recompile import FUTURE_FLAGS, codes_named, moved, nested_codes, same_code

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from prtoggle.installers.spot_places import Block

# The name under which a probe finds its hit function, from any module's code.
NAME: Final = "__prtoggle_probe__"
_PREFIX: Final = "prtoggle probe "

# Held while a function's code is looked at and exchanged, here and by the engine.
LOCK = threading.RLock()


@dataclass(slots=True, eq=False)
class Heard:
    """What came of a probe since it was armed. `is_spent`: it told, and its function has advanced.

    Arming puts a new one in place: a thread that is in the middle of a hit then ends it on the old one.
    """

    hits: int = 0
    is_spent: bool = False


@dataclass(slots=True, eq=False)
class Probe:
    """One probe: what it tells, where it stands in the tree, and what came of it."""

    name: str
    told: Callable[[], None]
    block: Block
    node: ast.expr
    heard: Heard = field(default_factory=Heard)


@dataclass(slots=True, eq=False)
class Instrumented:
    """One syntax tree with the probes that were put into it."""

    tree: ast.AST
    probes: list[Probe]

    def compiled(self, kept: Sequence[Probe], flags: int, filename: str) -> CodeType:
        """The tree's code with only the probes `kept`; the tree itself stays as it is."""
        removed = [probe for probe in self.probes if probe not in kept]
        for probe in removed:
            probe.block.remove(probe.node)
        try:
            tree: Any = self.tree
            code: CodeType = compile(tree, filename, "exec", flags, dont_inherit=True)
        finally:
            for probe in reversed(removed):
                probe.block.insert(probe.node)
        return code


class ProbedFunction:
    """One edited function: the code without probes, the code with all of them, and the forms between.

    Keeps neither a function nor the plain code alive; it is forgotten when the plain code is gone.
    """

    def __init__(
        self, plain: CodeType, installed: CodeType, probes: tuple[Probe, ...], source: Instrumented | None
    ) -> None:
        self._plain = weakref.ref(plain)
        # Nobody else keeps the code of a module, in which the code of its lambdas is.
        self._kept = plain if plain.co_name == "<module>" else None
        self._installed = installed
        self._forms = [installed]
        self._source = source
        self.probes = probes
        self.present = installed

    def advance(self) -> None:
        """Let every function that runs a form of this one run the form that is due now; LOCK is held."""
        open_probes = [probe for probe in self.probes if not probe.heard.hits]
        due = self._form(open_probes) if open_probes else self._plain()
        if due is None or due is self.present:
            return
        # Known before any function runs it: a child that is forked meanwhile has to find it there.
        if open_probes:
            self._forms.append(due)
            _functions[id(due)] = self
        self.present = due
        self._exchange(self._forms, due)

    def rearm(self) -> None:
        """Put all probes back, as after a fork: what the parent's calls hit says nothing of the child's.

        LOCK is held: what is present is also what every function runs.
        """
        for probe in self.probes:
            probe.heard = Heard()
        plain = self._plain()
        if self.present is not self._installed and plain is not None:
            self._exchange([plain, *self._forms[1:]], self._installed)
            self.present = self._installed

    @property
    def forms(self) -> tuple[CodeType, ...]:
        """The codes with probes, all of them first."""
        return tuple(self._forms)

    def _exchange(self, old: Sequence[CodeType], new: CodeType) -> None:
        """Let every function that runs an old code, or one in it with these probes, run what corresponds."""
        own = {probe.name for probe in self.probes}
        pairs = {
            id(before): (before, after)
            for code in old
            for before, after in _corresponding(code, new)
            if own.issuperset({*_probe_names(before), *_probe_names(after)})
        }
        for referrer in gc.get_referrers(*(before for before, _ in pairs.values())):
            if type(referrer) is FunctionType:
                before, after = pairs.get(id(referrer.__code__), (None, None))
                if before is not None and after is not None and before.co_freevars == after.co_freevars:
                    referrer.__code__ = after

    def _form(self, open_probes: Sequence[Probe]) -> CodeType | None:
        """The function with only these probes; None when it cannot be made for certain."""
        plain = self._plain()
        if self._source is None or plain is None:
            return None
        bare = self._compiled(())
        # Whatever else takes part in compiling this module would be missing from a form: then there is none.
        if bare is None or not same_code(bare, plain):
            self._source = None
            return None
        return self._compiled(open_probes)

    def _compiled(self, kept: Sequence[Probe]) -> CodeType | None:
        assert self._source is not None, self._installed
        like = self._installed
        root = self._source.compiled(kept, like.co_flags & FUTURE_FLAGS, like.co_filename)
        found = codes_named(root, like.co_qualname)
        exact = [code for code in found if code.co_firstlineno == like.co_firstlineno] or found
        if len(exact) != 1:
            return None
        return moved(exact[0], like.co_firstlineno - exact[0].co_firstlineno, like.co_filename)


# Probes by name, each with its function; None while that is not known.
_by_name: dict[str, tuple[Probe, ProbedFunction | None]] = {}
# Probed functions by the id of each of their codes.
_functions: dict[int, ProbedFunction] = {}
_serial = itertools.count(1)


def insert(tree: ast.AST, places: Sequence[tuple[Block, Callable[[], None]]]) -> Instrumented:
    """Put a probe into each place of the tree; at its first hit it calls what comes with the place."""
    setattr(builtins, NAME, hit)
    probes = []
    for block, told in places:
        name = f"{_PREFIX}{next(_serial)}"
        node = ast.Call(ast.Name(NAME, ast.Load()), [ast.Constant(name)], [])
        probe = Probe(name, told, block, node)
        block.insert(node)
        probes.append(probe)
        _by_name[name] = (probe, None)
    return Instrumented(tree, probes)


def register(plain: CodeType, installed: CodeType, source: Instrumented, *, has_forms: bool = True) -> None:
    """Learn which function the probes of `source` that are in `installed` belong to.

    Without forms all of its probes stay until the last one was hit.
    """
    names = set(_probe_names(installed))
    # The probes of functions in a module, which are told of first, are not the module's own.
    probes = tuple(
        probe for probe in source.probes if probe.name in names and _by_name[probe.name][1] is None
    )
    function = ProbedFunction(plain, installed, probes, source if has_forms else None)
    _functions[id(installed)] = _functions[id(plain)] = function
    for probe in probes:
        _by_name[probe.name] = (probe, function)
    weakref.finalize(plain, _forget, id(plain), function).atexit = False


def _forget(plain_id: int, function: ProbedFunction) -> None:
    for code_id in (plain_id, *map(id, function.forms)):
        _functions.pop(code_id, None)
    for probe in function.probes:
        _by_name.pop(probe.name, None)


def present(installed: CodeType) -> CodeType:
    """What is due for a function where `installed` was put first: itself, a form of it, or the plain code."""
    function = _functions.get(id(installed))
    return installed if function is None else function.present


def same_function(one: CodeType, other: CodeType) -> bool:
    """Whether both are forms of one function: with all of its probes, some or none."""
    function = _functions.get(id(one))
    return function is not None and function is _functions.get(id(other))


def forms_of(code: CodeType) -> list[CodeType]:
    """Every code that functions may run in place of this one because of probes; itself is one of them."""
    function = _functions.get(id(code))
    return [code] if function is None else [code, *(form for form in function.forms if form is not code)]


def _unlock() -> None:
    global LOCK  # noqa: PLW0603  # a thread that does not exist in the child may have held it
    LOCK = threading.RLock()


os.register_at_fork(after_in_child=_unlock)


def rearm_all() -> None:
    """Put every probe back into its function, as the child after a fork needs them."""
    with LOCK:
        for function in {id(function): function for function in list(_functions.values())}.values():
            function.rearm()


def hit(name: str) -> None:
    """Called by a probe. Cheap once there is nothing more to tell: a frame in flight may loop over it."""
    known = _by_name.get(name)
    if known is None:
        return
    probe, function = known
    heard = probe.heard
    if heard.is_spent:
        return
    # Of threads that come at the same time at least one finds 0; telling twice tells nothing more.
    before = heard.hits
    heard.hits = before + 1
    if before == 0:
        probe.told()
    if function is None:
        # In a module's own statements, which run once.
        heard.is_spent = True
    # While somebody flips toggles, the exchange waits for the next hit rather than for them.
    elif (before or all(other.heard.hits for other in function.probes)) and LOCK.acquire(blocking=False):
        try:
            # What was hit before the probes were armed anew says nothing of them.
            if probe.heard is heard:
                heard.is_spent = True
                function.advance()
        finally:
            LOCK.release()


# torch.compile then calls it while it traces, instead of tracing it: what is traced counts as reached.
hit._dynamo_marked_constant = True  # type: ignore[attr-defined]  # noqa: SLF001  # its own function's mark


def _probe_names(code: CodeType) -> Iterator[str]:
    if NAME in code.co_names:
        yield from (const for const in code.co_consts if isinstance(const, str) and const.startswith(_PREFIX))
    for nested in nested_codes(code):
        yield from _probe_names(nested)


def _corresponding(old: CodeType, new: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    if old is not new:
        yield old, new
        for before, after in zip(nested_codes(old), nested_codes(new), strict=True):
            yield from _corresponding(before, after)
