"""A fingerprint of what a proof rests on: specs, guards, and the files of the targets and of wrappers."""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from prtoggle.errors import PrToggleError
from prtoggle.target import split_target
from prtoggle.verify.entries import entry_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prtoggle.spec import Toggle


def fingerprint(toggles: Sequence[Toggle], root: Path) -> str:
    """SHA-256 over the files of specs, guards, targets and wrappers; changes when any of them does.

    Paths enter relative to `root`, so that two checkouts of one state agree. Of a guard that is a folder all
    Python files count; what is not there counts as its name. Nothing is imported.
    """
    digest = hashlib.sha256()
    for path in sorted(set(_files(toggles, root))):
        name = path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name
        digest.update(f"{name}\0".encode())
        if path.is_file():
            digest.update(path.read_bytes().replace(b"\r\n", b"\n"))
    return digest.hexdigest()


def _files(toggles: Sequence[Toggle], root: Path) -> Iterator[Path]:
    for toggle in toggles:
        if toggle.source is not None:
            yield Path(toggle.source.file).resolve()
        for guard in toggle.guards:
            place = entry_of(guard, root).file.resolve()
            yield from place.rglob("*.py") if place.is_dir() else (place,)
        wrappers = [patch.wrap.replace(":", ".") for patch in toggle.patches if patch.wrap]
        for target in (*toggle.targets, *wrappers):
            # That one is nowhere is for the runs, and for `prtoggle check`, to tell.
            with contextlib.suppress(PrToggleError):
                yield split_target(target).file.resolve()
