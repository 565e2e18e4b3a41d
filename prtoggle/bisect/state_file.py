"""The file in which a search is kept: written anew after each run, read by `--resume` only.

It holds what was asked (`plan`) and every run that ended. What to do next is not in it: that follows from the
runs, which is why a search that was interrupted anywhere ends with the same answer.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from prtoggle.bisect.records import RunRecord
from prtoggle.bisect.refusals import BisectError, StaleStateError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

FORMAT_VERSION: Final = 1
DEFAULT_NAME: Final = ".prtoggle-bisect.json"


@dataclass(frozen=True, slots=True)
class Plan:
    """What the answer depends on; two searches with equal plans may share their runs.

    `specs` maps ids to a digest of the spec, `sources` the files of the targets to a digest of each, `files`
    those that the command names.
    """

    command: tuple[str, ...]
    folder: str
    repeat: int
    timeout: float | None
    rules: Mapping[str, Any]
    unmask: bool
    specs: Mapping[str, str]
    sources: Mapping[str, str]
    files: Mapping[str, str] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """The plan as plain values."""
        return {
            "command": list(self.command),
            "folder": self.folder,
            "repeat": self.repeat,
            "timeout": self.timeout,
            "rules": {
                name: list(value) if isinstance(value, tuple) else value for name, value in self.rules.items()
            },
            "unmask": self.unmask,
            "specs": dict(self.specs),
            "sources": dict(self.sources),
            "files": dict(self.files),
        }


@dataclass(slots=True)
class StateFile:
    """A state file and the search that it is for."""

    path: Path
    plan: Plan
    _runs: list[dict[str, Any]] = field(default_factory=list)

    def resume(self) -> list[RunRecord]:
        """The runs that were made.

        Raises BisectError when there is no such file, or it is none of ours, and StaleStateError for one of
        another search. The file stays as it is.
        """
        try:
            text = self.path.read_text(encoding="utf-8")
        except OSError as error:
            raise BisectError(
                f"{self.path} cannot be resumed: {error.strerror or error}. Start without --resume."
            ) from error
        try:
            document = json.loads(text)
            version, plan = document["version"], document["plan"]
            records = [RunRecord.from_json(run) for run in document["runs"]]
        except (ValueError, TypeError, KeyError) as error:
            raise BisectError(f"{self.path} is not a state file of `prtoggle bisect`: {error!r}") from error
        if version != FORMAT_VERSION:
            raise StaleStateError(
                f"{self.path} has format {version}, this prtoggle reads {FORMAT_VERSION}: start anew without "
                "--resume"
            )
        differences = tuple(_differences(plan, self.plan.as_json()))
        if differences:
            listed = "\n".join(f"  {line}" for line in differences)
            raise StaleStateError(
                f"{self.path} belongs to another search:\n{listed}\nIts runs would not answer this one. Ask "
                "as then, or start anew without --resume.",
                differences=differences,
            )
        self._runs = [record.as_json() for record in records]
        # A file that the runs themselves have made is none that they depend on.
        self.plan = replace(self.plan, files=dict(plan["files"]))
        return records

    def check(self) -> None:
        """Raise BisectError when the file cannot be written, or is another's; nothing is written yet."""
        if self.path.is_dir() or not os.access(self.path.absolute().parent, os.W_OK):
            raise BisectError(f"--state {self.path}: a file cannot be written there")
        if self.path.exists() and not self._may_be_replaced():
            raise BisectError(
                f"{self.path} is not a state file of `prtoggle bisect`, and would be written over: name "
                "another one with --state"
            )

    def _may_be_replaced(self) -> bool:
        """Whether the file that is there is a state, of whatever search, or empty."""
        if not self.path.is_file():
            return False
        try:
            text = self.path.read_text(encoding="utf-8")
            document = json.loads(text or "{}")
        except (OSError, ValueError):
            return False
        return not text or (isinstance(document, dict) and {"version", "plan", "runs"} <= document.keys())

    def add(self, record: RunRecord) -> None:
        """Write the file with one more run; whoever reads it sees the old state or the new one."""
        self._runs.append(record.as_json())
        self._write()

    def _write(self) -> None:
        document = {"version": FORMAT_VERSION, "plan": self.plan.as_json(), "runs": self._runs}
        new = self.path.with_name(f"{self.path.name}.prtoggle-new")
        try:
            with new.open("w", encoding="utf-8") as file:
                json.dump(document, file, indent=1)
                file.flush()
                os.fsync(file.fileno())
            new.replace(self.path)
        except OSError as error:
            raise BisectError(
                f"{self.path} cannot be written: {error.strerror or error}; give --state"
            ) from error


def _differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    lines = [
        f"{name}: then {_shown(then.get(name))}, now {_shown(now[name])}"
        for name in ("command", "folder", "repeat", "timeout", "unmask", "rules")
        if then.get(name) != now[name]
    ]
    lines += _mapping_differences("toggle", "spec", then.get("specs", {}), now["specs"])
    lines += _mapping_differences("file", "text", then.get("sources", {}), now["sources"])
    lines += _file_differences(then.get("files"), now["files"])
    return lines


def _file_differences(then: Mapping[str, str] | None, now: Mapping[str, str]) -> list[str]:
    """What became of the files that the command named then; one that came later is what the runs made."""
    if then is None:
        return ["files of the command: not kept by the prtoggle that wrote it"]
    return [
        f"file {name} of the command: {'another text now' if name in now else 'not there now'}"
        for name in sorted(then)
        if then[name] != now.get(name)
    ]


def _mapping_differences(what: str, part: str, then: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    def listed(names: Sequence[str], said: str) -> list[str]:
        shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
        return [f"{what}{'s' if len(names) > 1 else ''} {shown}: {said}"] if names else []

    return [
        *listed(sorted(set(then) - set(now)), "searched then, not now"),
        *listed(sorted(set(now) - set(then)), "not searched then"),
        *listed(
            sorted(name for name in set(then) & set(now) if then[name] != now[name]), f"another {part} now"
        ),
    ]


def _shown(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)
