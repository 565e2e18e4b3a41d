"""What the engine tells about toggles: their states, and the events that lead from one to the next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from prtoggle.errors import PrToggleError
    from prtoggle.spec import Toggle

State = Literal["armed", "active", "failed"]
Moment = Literal["at load", "live"]


@dataclass(frozen=True, slots=True)
class PatchState:
    """How one patch of a toggle stands. `moment` is None until its module is loaded."""

    target: str
    mode: str
    state: State
    moment: Moment | None
    module: str | None
    module_file: str | None
    note: str = ""


@dataclass(frozen=True, slots=True)
class ToggleState:
    """How one toggle stands: "active" once every patch is, "failed" when one is; `handles` hold it."""

    toggle: Toggle
    state: State
    patches: tuple[PatchState, ...]
    handles: int


@dataclass(frozen=True, slots=True)
class Armed:
    """A patch waits for its module to load."""

    toggle_id: str
    target: str
    module: str


@dataclass(frozen=True, slots=True)
class Loaded:
    """A module is being loaded with a patch in its source; `Activated` follows when it has run."""

    toggle_id: str
    target: str
    module: str
    module_file: str


@dataclass(frozen=True, slots=True)
class Activated:
    """A patch is in effect."""

    toggle_id: str
    target: str
    module: str | None
    module_file: str | None
    mode: str
    moment: Moment
    note: str = ""


@dataclass(frozen=True, slots=True)
class Restored:
    """A patch is no longer in effect, nor armed."""

    toggle_id: str
    target: str


@dataclass(frozen=True, slots=True)
class Failed:
    """A patch could not be made when its module was loaded; the import raises the same error."""

    toggle_id: str
    target: str
    error: PrToggleError


@dataclass(frozen=True, slots=True)
class Called:
    """The function of an observed patch was called for the first time in this process."""

    toggle_id: str
    target: str


@dataclass(frozen=True, slots=True)
class Reached:
    """The statement of an observed edit was reached for the first time in this process."""

    toggle_id: str
    target: str
    edit_index: int


Event = Armed | Loaded | Activated | Restored | Failed | Called | Reached
Subscriber = "Callable[[Event], None]"
