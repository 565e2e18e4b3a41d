"""Everything that prtoggle raises on purpose.

    PrToggleError
    ├── SpecError (ValueError)              a spec file or text that does not say what it must
    ├── CatalogueError (ValueError)         a catalogue folder that is not there or cannot be read
    ├── UnknownToggleError (LookupError)    no spec has that id
    ├── DuplicateToggleError (ValueError)   two specs of one folder have the same id
    ├── NotApplicableError (ValueError)     no variant of the toggle is for the installed version
    ├── TargetError (LookupError)           the module is there, the name in it is not
    ├── TargetModuleError (ImportError)     the target's module is not there or fails to import
    ├── UnsupportedTargetError (TypeError)  the target is of a kind that cannot be edited
    ├── MatchError (ValueError)             the source does not hold the text of an edit
    │   ├── AmbiguousMatchError             it holds it several times
    │   └── AlreadyRevertedError            it holds the reverted text instead
    ├── EditError (ValueError)              the edited source is not valid Python
    │   ├── EditOverlapError                two edits want the same lines
    │   └── UndefinedNameError (NameError)  an edit uses a name that nothing defines
    ├── StaleSourceError (RuntimeError)     the file is not what the running code was made from
    ├── ConflictError (ValueError)          toggles that cannot be reverted together
    ├── RestoreError (RuntimeError)         the target was changed by somebody else meanwhile
    └── ActivationError (RuntimeError)      the environment asked for something that cannot be done

Each leaf carries its data as attributes, so that a caller need not read the message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


class PrToggleError(Exception):
    """The base of everything that prtoggle raises on purpose."""


class SpecProblem(NamedTuple):
    """One thing wrong with a spec; lines and columns count from 1, and 0 says that there is none."""

    file: str
    line: int
    column: int
    key_path: str
    message: str

    def __str__(self) -> str:
        place = self.file if not self.line else f"{self.file}:{self.line}:{self.column}"
        key = f" {self.key_path}:" if self.key_path else ""
        return f"{place}:{key} {self.message}"


class SpecError(PrToggleError, ValueError):
    """A spec is wrong; `problems` lists every place, the other attributes give the first one."""

    def __init__(self, message: str, *, problems: Sequence[SpecProblem] = ()) -> None:
        super().__init__(message)
        self.problems = tuple(problems)
        first = self.problems[0] if self.problems else SpecProblem("", 0, 0, "", message)
        self.file, self.line, self.column, self.key_path = first[:4]

    @classmethod
    def of(cls, problems: Sequence[SpecProblem]) -> SpecError:
        """The error that reports all of `problems` (at least one), one a line, in the order of the file."""
        ordered = sorted(problems, key=lambda problem: (problem.file, problem.line, problem.column))
        return cls("\n".join(map(str, ordered)), problems=ordered)


class CatalogueError(PrToggleError, ValueError):
    """A catalogue that was named is not there or cannot be read."""

    def __init__(self, message: str, *, folder: str = "") -> None:
        super().__init__(message)
        self.folder = folder


class UnknownToggleError(PrToggleError, LookupError):
    """No catalogue has a toggle of that id."""

    def __init__(self, message: str, *, id: str = "", near: Sequence[str] = ()) -> None:  # noqa: A002  # the field's name
        super().__init__(message)
        self.id = id
        self.near = tuple(near)


class DuplicateToggleError(PrToggleError, ValueError):
    """Two specs of one catalogue folder have the same id."""

    def __init__(self, message: str, *, id: str = "", files: Sequence[str] = ()) -> None:  # noqa: A002  # the field's name
        super().__init__(message)
        self.id = id
        self.files = tuple(files)


class NotApplicableError(PrToggleError, ValueError):
    """The toggle's version range leaves out the version that is installed."""

    def __init__(self, message: str, *, id: str = "", version: str = "") -> None:  # noqa: A002  # the field's name
        super().__init__(message)
        self.id = id
        self.version = version


class TargetError(PrToggleError, LookupError):
    """The target's module is there, but it does not define the name."""

    def __init__(self, message: str, *, target: str = "", near: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.target = target
        self.near = tuple(near)


class TargetModuleError(PrToggleError, ImportError):
    """The target's module is not there, or it fails to import (the message then carries the true cause)."""

    def __init__(self, message: str, *, target: str = "", module: str = "") -> None:
        super().__init__(message, name=module or None)
        self.target = target
        self.module = module


class UnsupportedTargetError(PrToggleError, TypeError):
    """The target exists, but is of a kind that cannot be edited; the message says what to do instead."""

    def __init__(self, message: str, *, target: str = "") -> None:
        super().__init__(message)
        self.target = target


class MatchError(PrToggleError, ValueError):
    """The source does not hold the text that an edit has to replace.

    `edit_index` counts from 0; `nearest` holds the (line number, text) pairs of the source that come closest.
    """

    def __init__(
        self,
        message: str,
        *,
        target: str = "",
        edit_index: int | None = None,
        nearest: Sequence[tuple[int, str]] = (),
    ) -> None:
        super().__init__(message)
        self.target = target
        self.edit_index = edit_index
        self.nearest = tuple(nearest)


class AmbiguousMatchError(MatchError):
    """The text of an edit stands in several places; `lines` are the file's line numbers where they begin."""

    def __init__(
        self,
        message: str,
        *,
        target: str = "",
        edit_index: int | None = None,
        lines: Sequence[int] = (),
    ) -> None:
        super().__init__(message, target=target, edit_index=edit_index)
        self.lines = tuple(lines)


class AlreadyRevertedError(MatchError):
    """The source holds the reverted text where the fixed one was looked for."""


class EditError(PrToggleError, ValueError):
    """The edited source would not be a valid program."""

    def __init__(self, message: str, *, target: str = "", toggles: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.target = target
        self.toggles = tuple(toggles)


class EditOverlapError(EditError):
    """Two edits want the same source lines; `toggles` names whose they are."""


class UndefinedNameError(EditError, NameError):
    """An edit uses names that neither its function, its module nor the builtins define."""

    def __init__(
        self,
        message: str,
        *,
        target: str = "",
        toggles: Sequence[str] = (),
        names: Sequence[str] = (),
    ) -> None:
        super().__init__(message, target=target, toggles=toggles)
        self.names = tuple(names)


class StaleSourceError(PrToggleError, RuntimeError):
    """The source on disk is not what the running code was compiled from."""

    def __init__(self, message: str, *, target: str = "", file: str = "") -> None:
        super().__init__(message)
        self.target = target
        self.file = file


class ConflictError(PrToggleError, ValueError):
    """Toggles that exclude each other, or that need one which was not asked for."""

    def __init__(self, message: str, *, toggles: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.toggles = tuple(toggles)


class RestoreError(PrToggleError, RuntimeError):
    """The target cannot be put back, because somebody else changed it meanwhile."""

    def __init__(self, message: str, *, target: str = "") -> None:
        super().__init__(message)
        self.target = target


class ActivationError(PrToggleError, RuntimeError):
    """The environment asked for a toggle that cannot take effect in this process."""
