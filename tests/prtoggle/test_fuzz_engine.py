"""On generated functions: a toggle gives what a hand would have made of the module, and takes all of it back."""

from __future__ import annotations

import contextlib
import gc
import importlib
import inspect
import itertools
import linecache
import re
import sys
import traceback
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, assume, given, note, settings
from hypothesis import strategies as st

import prtoggle
from prtoggle import engine
from prtoggle.spec import Edit, Patch, Toggle
from tests.prtoggle.program_trees import HEADER, NEW_HEADERS, Change, Program, changes_of, programs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import ModuleType

_serial = itertools.count()
QUIET = settings(
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
)


class Folder:
    """Where the modules of this file lie; as a context manager it gives an example an engine of its own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.names: list[str] = []

    def write(self, text: str) -> str:
        name = f"fuzzed_{next(_serial)}"
        (self.path / f"{name}.py").write_text(text, encoding="utf-8")
        self.names.append(name)
        importlib.invalidate_caches()
        return name

    def load(self, text: str) -> ModuleType:
        return importlib.import_module(self.write(text))

    def __enter__(self) -> None:
        self._before, engine._engine = engine._engine, engine.Engine()

    def __exit__(self, *error: object) -> None:
        engine._engine.loading.stop()
        engine._engine = self._before
        for name in self.names:
            sys.modules.pop(name, None)
            (self.path / f"{name}.py").unlink()
            linecache.cache.pop(str(self.path / f"{name}.py"), None)
        self.names.clear()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Folder]:
    path = tmp_path_factory.mktemp("fuzzed")
    sys.path.insert(0, str(path))
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    yield Folder(path)
    sys.dont_write_bytecode = before
    sys.path.remove(str(path))


@pytest.fixture(autouse=True)
def _quiet_gc() -> Iterator[None]:
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def functions(module: ModuleType) -> list[FunctionType]:
    """Every function of the module that exists, wherever it is kept."""
    return [
        thing
        for thing in gc.get_referrers(vars(module))
        if type(thing) is FunctionType and thing.__globals__ is vars(module)
    ]


def drive(value: Any) -> Any:
    """Runs generators and coroutines to their end."""
    if inspect.isgenerator(value):
        items = []
        try:
            while True:
                items.append(next(value))
        except StopIteration as end:
            return ["generator", items, end.value]
    if inspect.iscoroutine(value):
        try:
            value.send(None)
        except StopIteration as end:
            return ["coroutine", end.value]
    if inspect.isasyncgen(value):
        items = []
        try:
            while True:
                items.append(drive_awaitable(anext(value)))
        except StopAsyncIteration:
            return ["asyncgen", items]
    if isinstance(value, (list, tuple)):
        return [drive(inner) for inner in value]
    return value


def drive_awaitable(awaitable: Any) -> Any:
    try:
        awaitable.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError(awaitable)


def observe(module: ModuleType, call: str) -> list[Any]:
    """What the target and its neighbours do, and where they fail."""
    seen = []
    for name in (call, "before"):
        for arguments in ({"x": 0}, {"x": 1}, {"x": 2}, {"x": 3}, {"x": 1, "d": 5}):
            try:
                value = drive(eval(name, vars(module))(**arguments))
                seen.append(re.sub("0x[0-9a-f]+", "0x", repr(value)))
            except Exception as error:  # noqa: BLE001  # whatever the generated code raises
                frames = [
                    (frame.name, frame.line)
                    for frame in traceback.extract_tb(error.__traceback__)
                    if frame.filename == module.__file__ or frame.filename.startswith("<prtoggle")
                ]
                seen.append((type(error).__name__, str(error), frames))
    for function in functions(module):
        if function.__code__.co_name == "target":
            source = inspect.getsource(function.__code__)
            seen.append((function.__code__.co_qualname, [line.strip() for line in source.splitlines()]))
            seen.append(repr((function.__annotations__, function.__kwdefaults__, function.__defaults__)))
    return seen


def agree(got: list[Any], wanted: list[Any]) -> None:
    """Both saw the same; what differs is shown."""
    assert len(got) == len(wanted)
    assert [pair for pair in zip(got, wanted, strict=True) if pair[0] != pair[1]] == []


def identities(module: ModuleType, found: list[FunctionType]) -> list[Any]:
    """Everything that must be the very same object again: code, defaults, namespaces."""
    owners = [module, *(thing for thing in vars(module).values() if isinstance(thing, type)), *found]
    # The code itself makes globals when it runs: those whose names are G and a number.
    made = re.compile(r"G\d+")
    seen: list[Any] = [
        {name: value for name, value in vars(owner).items() if not made.fullmatch(name)} for owner in owners
    ]
    seen += [(function.__code__, function.__defaults__, function.__kwdefaults__) for function in found]
    return seen


def same_objects(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same_objects(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same_objects, one, other))
    return one is other


def codes(root: CodeType) -> Iterator[CodeType]:
    for const in root.co_consts:
        if isinstance(const, CodeType):
            yield const
            yield from codes(const)


def _code_of(program: Program, text: str) -> CodeType:
    found = [
        code for code in codes(compile(text, "x", "exec")) if code.co_qualname == program.context.qualname
    ]
    return found[0]


_KINDS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


def is_refused_live(program: Program, before: str, after: str) -> bool:
    """Whether the hand-edited function needs a cell that the running one lacks, or is of another kind."""
    old, new = _code_of(program, before), _code_of(program, after)
    if program.context.target == "factory.<locals>.target":
        return False
    if sys.version_info >= (3, 13) and (old.co_flags ^ new.co_flags) & _KINDS:
        return True
    return not set(new.co_freevars) <= set(old.co_freevars)


def stays_reverted(program: Program, before: str, after: str, *, header: bool) -> bool:
    """Whether a function born with the edits (`after`) cannot be given the code of `before`."""
    old, new = _code_of(program, before), _code_of(program, after)
    if program.context.target == "target" and "<locals>" in program.context.qualname:
        # Made by another function: what was evaluated when it was made stays as it is.
        return header or old.co_freevars != new.co_freevars or bool((old.co_flags ^ new.co_flags) & _KINDS)
    # A class cell that the function has without the edit is kept for the way back.
    return is_refused_live(program, after, before) and not (
        set(old.co_freevars) - set(new.co_freevars) == {"__class__"}
        and not (sys.version_info >= (3, 13) and (old.co_flags ^ new.co_flags) & _KINDS)
    )


def is_valid(text: str) -> bool:
    try:
        compile(text, "x", "exec", dont_inherit=True)
    except SyntaxError:
        return False
    return True


@st.composite
def toggles(draw: st.DrawFn, program: Program, change: Change) -> Edit:
    """The edit that asks for a change, written in one of the ways in which people write it."""
    depth = draw(st.sampled_from([0, 0, 3]))
    match = program.shown(change.node, depth)
    return Edit(match, change.text.replace("\n|", "\n"), change.mode)


@st.composite
def plans(draw: st.DrawFn) -> Any:
    """A program, two toggles of it as (edits, changes, header, preamble), none of them empty."""
    program, numbers = draw(programs())
    first = draw(changes_of(program, numbers, []))
    assume(first is not None)
    taken = [first]
    if draw(st.booleans()):
        more = draw(changes_of(program, numbers, taken))
        taken += [more] if more is not None else []
    own = list(taken)
    other = draw(changes_of(program, numbers, taken))
    preamble = draw(st.sampled_from(["", "", "import math as extra"]))
    header = draw(st.sampled_from([None, None, None, *NEW_HEADERS]))
    edits = [draw(toggles(program, change)) for change in own]
    if header is not None:
        line = program.header()
        edits.append(Edit(line, line.replace(HEADER[1:], header[1:]), "replacement"))
    second = [draw(toggles(program, other))] if other is not None else []
    return program, (edits, own, header, preamble), (second, [other] if other is not None else [])


def make_toggle(name: str, program: Program, edits: list[Edit], preamble: str = "") -> Toggle:
    patch = Patch(f"{name}.{program.context.target}", tuple(edits), preamble=preamble)
    return Toggle(id=f"fuzz-{next(_serial)}", patches=(patch,))


def texts_of(plan: Any) -> tuple[str, str, str, str]:
    """The module: as it is, with the first toggle, with both, with the second."""
    program, (_, own, header, preamble), (_, others) = plan
    return (
        program.text(),
        program.text(own, header, preamble),
        program.text([*own, *others], header, preamble),
        program.text(others),
    )


@QUIET
@given(plans())
def test_a_loaded_module_behaves_as_edited_by_hand(folder: Folder, plan: Any) -> None:
    program, (edits, _, _, preamble), (second, _) = plan
    texts = texts_of(plan)
    assume(is_valid(texts[0]))
    note(texts[0])
    note(texts[1])
    call = program.context.call
    with folder:
        module = folder.load(texts[0])
        first = make_toggle(module.__name__, program, edits, preamble)
        before = observe(module, call)
        there = functions(module)
        found = identities(module, there)
        if not is_valid(texts[1]) or is_refused_live(program, texts[0], texts[1]):
            with pytest.raises(prtoggle.PrToggleError):
                prtoggle.revert(first)
            assert same_objects(identities(module, there), found)
            return
        handle = prtoggle.revert(first)
        try:
            agree(observe(module, call), observe(folder.load(texts[1]), call))
            if second and is_valid(texts[2]) and not is_refused_live(program, texts[0], texts[2]):
                with prtoggle.reverted(make_toggle(module.__name__, program, second)):
                    agree(observe(module, call), observe(folder.load(texts[2]), call))
                    if is_valid(texts[3]):
                        handle.restore()
                        agree(observe(module, call), observe(folder.load(texts[3]), call))
        finally:
            handle.restore()
        assert same_objects(identities(module, there), found)
        agree(observe(module, call), before)


@QUIET
@given(plans())
def test_a_module_born_reverted_behaves_as_edited_by_hand(folder: Folder, plan: Any) -> None:
    program, (edits, _, _, preamble), (second, _) = plan
    texts = texts_of(plan)
    assume(is_valid(texts[0]))
    note(texts[0])
    note(texts[1])
    call = program.context.call
    with folder:
        name = folder.write(texts[0])
        first = make_toggle(name, program, edits, preamble)
        if not is_valid(texts[1]):
            with pytest.raises(prtoggle.PrToggleError):
                prtoggle.revert(first)
            return
        handle = prtoggle.revert(first)
        try:
            module = importlib.import_module(name)
            agree(observe(module, call), observe(folder.load(texts[1]), call))
            # The way back is an exchange like any other, with the same refusals.
            if stays_reverted(program, texts[0], texts[1], header=plan[1][2] is not None):
                with pytest.raises(prtoggle.RestoreError):
                    handle.restore()
                return
            if second and is_valid(texts[2]) and not is_refused_live(program, texts[1], texts[2]):
                extra = make_toggle(name, program, second)
                if program.context.target == "target" and "<locals>" in program.context.qualname:
                    with pytest.raises(prtoggle.UnsupportedTargetError, match="was made by factory"):
                        prtoggle.revert(extra)
                    handle.restore()
                    agree(observe(module, call), observe(folder.load(texts[0]), call))
                    return
                other = prtoggle.revert(extra)
                agree(observe(module, call), observe(folder.load(texts[2]), call))
                other.restore()
            handle.restore()
            agree(observe(module, call), observe(folder.load(texts[0]), call))
            if not is_refused_live(program, texts[0], texts[1]):
                with prtoggle.reverted(first):
                    agree(observe(module, call), observe(folder.load(texts[1]), call))
                agree(observe(module, call), observe(folder.load(texts[0]), call))
        finally:
            # One that cannot be put back ends with its engine.
            with contextlib.suppress(prtoggle.RestoreError):
                handle.restore()
