"""The lock file beside a catalogue: the code that each toggle was last known to fit, as text.

    {"version": 1, "toggles": {"26972": [
        {"target": ..., "name": ..., "fingerprint": ..., "others": [...], "text": [lines]}]}}

One line of code is one line of the file, so that a review shows what became of the code under a toggle.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from prtoggle.errors import SpecError, SpecProblem

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

LOCK_NAME = "lock.json"
_VERSION = 1


class LockedTarget(NamedTuple):
    """What one patch was about: its target, the definition that was edited, and that definition's text.

    `name` is the qualified name within the module ("" for the module itself); `text` is dedented, with LF.
    `others` are definitions that were like it when it was locked: whatever becomes of it, it is none of them.
    """

    target: str
    name: str
    text: str
    others: tuple[str, ...] = ()

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the text, 16 digits of it."""
        return fingerprint(self.text)


Lock = dict[str, tuple[LockedTarget, ...]]


def fingerprint(text: str) -> str:
    """What changes whenever a character of the text does."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def read_lock(folder: Path) -> Lock:
    """The lock of a catalogue folder, empty where there is none. Raises SpecError for a file that is none."""
    file = folder / LOCK_NAME
    if not file.is_file():
        return {}
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
        if document["version"] != _VERSION:
            raise _wrong(file, f"has version {document['version']}; this prtoggle reads version {_VERSION}")
        lock = {
            toggle_id: tuple(_locked(file, toggle_id, entry) for entry in entries)
            for toggle_id, entries in document["toggles"].items()
        }
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError, AttributeError) as error:
        raise _wrong(
            file, f"is no lock file: {error!r}; remove it, and lock anew with `prtoggle check --update`"
        ) from error
    return lock


def _locked(file: Path, toggle_id: str, entry: Mapping[str, Any]) -> LockedTarget:
    text = "".join(f"{line}\n" for line in entry["text"])
    locked = LockedTarget(entry["target"], entry["name"], text, tuple(entry["others"]))
    if locked.fingerprint != entry["fingerprint"]:
        raise _wrong(
            file,
            f"says another text of {locked.target} (toggle {toggle_id}) than its fingerprint is of: it was "
            "edited by hand or merged. Take the entry out, and lock anew with `prtoggle check --update`",
        )
    return locked


def _wrong(file: Path, message: str) -> SpecError:
    return SpecError.of([SpecProblem(str(file), 0, 0, "", message)])


def write_lock(folder: Path, lock: Lock) -> bool:
    """Write the lock, sorted, the same bytes for the same content; whether the file changed."""
    document = {
        "version": _VERSION,
        "toggles": {
            toggle_id: [
                {
                    "target": locked.target,
                    "name": locked.name,
                    "fingerprint": locked.fingerprint,
                    "others": list(locked.others),
                    "text": locked.text.removesuffix("\n").split("\n"),
                }
                for locked in lock[toggle_id]
            ]
            for toggle_id in sorted(lock, key=_natural)
        },
    }
    text = json.dumps(document, indent=1, ensure_ascii=False) + "\n"
    file = folder / LOCK_NAME
    if file.is_file() and file.read_text(encoding="utf-8") == text:
        return False
    file.write_text(text, encoding="utf-8")
    return True


def _natural(toggle_id: str) -> tuple[int, int, str]:
    number = re.match(r"\d+", toggle_id)
    return (0, int(number[0]), toggle_id) if number else (1, 0, toggle_id)
