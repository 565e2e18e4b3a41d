"""What the engine asks of an installer, and the values that travel between them.

Two kinds of change exist. Source edits compose: the code of a function is the edits of all active toggles
applied to its original text, so the engine builds one `Variant` per function and set of toggles and
exchanges it. Whoever keeps something derived from that function (a cache of results, a Triton kernel's
source) is a `Follower` of it. A `value:` or `wrap:` patch has no source to compose: it is one `Step`, alone
at its place.

Everything here obeys the same order: plan and prepare may refuse and change nothing; install and follow
come after all plans of all toggles have passed; restore and the way back run in reverse.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from prtoggle.recompile import docstring

if TYPE_CHECKING:
    import ast
    from collections.abc import Sequence
    from types import CodeType, FunctionType, ModuleType

    from prtoggle.spec import Patch


@dataclass(frozen=True, slots=True)
class LivePatch:
    """One `value:` or `wrap:` patch whose module is loaded: what its installer plans from."""

    toggle_id: str
    patch: Patch
    module: ModuleType
    # Dotted path below the module, for example `Pool.page`; never empty.
    qualname: str


class Step(Protocol):
    """One planned change at one place. Planning has verified it; nothing is changed until `install`.

    The engine calls `install` and `restore` in strict alternation, as often as the toggle flips, always
    under its lock.
    """

    def install(self) -> None:
        """Make the change fully, or raise a `PrToggleError` and leave everything as it was."""

    def restore(self) -> None:
        """Put the original back exactly (the owner's `__dict__` too).

        Raises `RestoreError`, changing nothing, when the place no longer holds what `install` put there.
        """

    def is_in_effect(self) -> bool:
        """Whether the place holds what `install` put there; only asked after `install`."""


class Planner(Protocol):
    """`plan` of installers.value and installers.wrapper."""

    def __call__(self, patch: LivePatch) -> Step:
        """Plan and verify; raises a `PrToggleError` leaf that names `patch.patch.target`. Changes nothing."""


@dataclass(frozen=True, slots=True)
class Spot:
    """Where one edit of one toggle stands in the edited text (a deletion: what stands there now)."""

    toggle_id: str
    target: str
    edit_index: int
    lines: tuple[int, ...]
    # Of a deletion: the column where the deleted lines began, which tells the block that they stood in.
    indent: int | None = None


@dataclass(slots=True, eq=False)
class Variant:
    """One function with the edits of a set of toggles: built and verified, not necessarily in effect.

    Never changed; not frozen, because that would make it slow to make.

    `code` is what the compiler made of the edited text. `probed` is the same function compiled after an
    observer put probes into its tree, and is what gets installed where it is not None.
    """

    target: str
    code: CodeType
    probed: CodeType | None
    defaults: tuple[object, ...] | None
    kwdefaults: dict[str, object] | None
    # None where no edit changed an annotation: the function's own are left alone then.
    annotations: dict[str, object] | None
    # The function's lines as they now read, decorators first, with the indentation of the file ("\n" line
    # ends). The first of them is line `code.co_firstlineno` of the linecache entry of `code.co_filename`.
    lines: tuple[str, ...]
    spots: tuple[Spot, ...]
    docstring: str | None = field(init=False)

    def __post_init__(self) -> None:
        self.docstring = docstring(self.code)


@runtime_checkable
class Follower(Protocol):
    """Something that keeps a copy derived from a function's code and must change with it.

    The engine calls `prepare` before anything is exchanged and `follow` right after the function's
    `__code__` was exchanged (or put back: `None`), under its lock.
    """

    def prepare(self, variant: Variant | None) -> None:
        """Refuse (a `PrToggleError` leaf) what could not be followed; changes nothing."""

    def follow(self, variant: Variant | None) -> None:
        """Derive anew from the function's present code; `None` is the very original, cache keys included.

        Verifies its own result and raises a `PrToggleError` when the change did not take.
        """


class FollowerOf(Protocol):
    """`follower_of` of installers.triton_jit: asked for each object met while decorators are peeled."""

    def __call__(self, holder: object, function: FunctionType, target: str) -> Follower | None:
        """Return the follower when `holder` is one of its kind (`function` is what it wraps), else None.

        Must not import what is not loaded: it is called in processes without Triton too.
        """


class Observer(Protocol):
    """The part of reach that takes part in compiling; only asked for toggles under observation.

    It puts probes into the tree where it needs them; otherwise it works from the codes it is told of, with
    `sys.monitoring`.
    """

    def needs_probes(self, spots: Sequence[Spot]) -> bool:
        """Whether a tree with these spots has to be instrumented."""

    def instrument(self, tree: ast.AST, spots: Sequence[Spot]) -> None:
        """Insert probes into the edited tree in place; lines of tree and spots agree."""

    def compiled(
        self, plain: CodeType, installed: CodeType, spots: Sequence[Spot], module: str, target: str
    ) -> None:
        """Learn of one edited function before it is in effect.

        `installed` is `plain` itself without probes; nested code objects correspond one to one. Lines of
        `spots` are those of `plain`. A probe that was hit replaces `installed` by `plain` in every function
        that runs it.
        """

    def step(self, toggle_id: str, target: str, step: Step) -> None:
        """Learn of a `value:` or `wrap:` patch before it is installed."""
