"""`prtoggle check --fix`: rewrites the specs whose healing is certain, and proves each before it is kept."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import TYPE_CHECKING

from prtoggle.cli.interruption import interruptible
from prtoggle.cli.show import short_path
from prtoggle.drift.judged import folder_of, lock_toggle
from prtoggle.drift.rewriting import rewritten
from prtoggle.errors import PrToggleError, SpecError
from prtoggle.loader import load_file, load_python_constants, read_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from prtoggle.catalog import Catalog
    from prtoggle.drift.judged import Judged, Locks
    from prtoggle.drift.surroundings import Surroundings
    from prtoggle.spec import Patch, Toggle

_STYLES = {"+": "green", "-": "red", "@": "cyan"}


def heal(
    out: Console,
    results: Sequence[Judged],
    catalog: Catalog,
    around: Surroundings,
    locks: Locks,
    *,
    verify: bool,
) -> list[Judged]:
    """Rewrite what can be rewritten, print what changes, and return the results that still need a person."""
    left = []
    rewritten_any = False
    for judged in results:
        if not judged.healed:
            left += [judged] if judged.is_finding else []
        elif _heal_one(out, judged, catalog, around, locks, verify=verify):
            rewritten_any = True
        else:
            left.append(judged)
    if rewritten_any:
        locks.write()
    elif not left:
        out.print(f"{len(results)} checked, nothing to fix", style="bold")
    return left


def _heal_one(
    out: Console, judged: Judged, catalog: Catalog, around: Surroundings, locks: Locks, *, verify: bool
) -> bool:
    """Whether the spec was rewritten, and its guards still catch the revert."""
    toggle = judged.toggle
    file = Path(toggle.source.file) if toggle.source is not None else None
    if file is None:
        out.print(f"{toggle.id}: the spec lies in no file; rewrite it by hand", style="red")
        return False
    before = file.read_bytes()
    try:
        kept = _with_line_ends(before, _rewritten_file(toggle, file, judged.healed))
        _print_diff(out, file, before.decode("utf-8-sig"), kept.decode("utf-8-sig"))
        file.write_bytes(kept)
        healed = _reloaded(toggle, file)
        problem = _not_caught(out, healed, catalog) if verify else ""
        if not problem:
            lock_toggle(healed, around, locks)
    except BaseException as error:
        file.write_bytes(before)
        if isinstance(error, PrToggleError):
            out.print(f"{toggle.id}: not rewritten: {error}", style="red", soft_wrap=True)
            return False
        raise
    if problem:
        file.write_bytes(before)
        out.print(f"{toggle.id}: put back as it was, because {problem}", style="red", soft_wrap=True)
        return False
    out.print(f"{toggle.id}: rewrote {short_path(str(file.absolute()))}", style="green", soft_wrap=True)
    return True


def _rewritten_file(toggle: Toggle, file: Path, patches: Sequence[Patch | None]) -> str:
    """The file's text with the healed spec in it; a Python file holds the spec as a plain string."""
    text = read_text(file)
    if file.suffix != ".py":
        return rewritten(toggle, text, patches)
    if text.count(toggle.text) != 1:
        raise SpecError(f"{file} does not hold the spec of {toggle.id} as it reads; rewrite it by hand")
    return text.replace(toggle.text, rewritten(toggle, toggle.text, patches))


def _reloaded(toggle: Toggle, file: Path) -> Toggle:
    if file.suffix != ".py":
        return load_file(file)
    return next(other for other in load_python_constants(file) if other.id == toggle.id)


def _with_line_ends(before: bytes, after: str) -> bytes:
    """The text as bytes, with the byte order mark and the line ends that the file had."""
    mark = b"\xef\xbb\xbf" if before.startswith(b"\xef\xbb\xbf") else b""
    text = after.replace("\r\n", "\n")
    return mark + (text.replace("\n", "\r\n") if b"\r\n" in before else text).encode()


def _not_caught(out: Console, toggle: Toggle, catalog: Catalog) -> str:
    """Why the healed spec is no good, "" when its guards catch the revert, or when it has none."""
    if not toggle.guards:
        out.print(f"{toggle.id}: has no guards, so nothing but the merge speaks for it", style="yellow")
        return ""
    from prtoggle.verify.guard_run import GuardRunner  # noqa: PLC0415 (a fix without guards starts no process)
    from prtoggle.verify.proof import verify_toggles  # noqa: PLC0415
    from prtoggle.verify.verdict import Verdict  # noqa: PLC0415

    folders = (str(folder_of(toggle).absolute()), *(str(folder.path) for folder in catalog.folders))
    with interruptible():
        proof = verify_toggles([toggle], GuardRunner(catalog.root, folders))[0]
    out.print(f"{toggle.id}: verify: {proof.verdict.value}", soft_wrap=True)
    return "" if proof.verdict is Verdict.CAUGHT else f"its guards say {proof.verdict.value}: {proof.detail}"


def _print_diff(out: Console, file: Path, before: str, after: str) -> None:
    name = short_path(str(file.absolute()))
    lines = difflib.unified_diff(
        before.splitlines(), after.splitlines(), f"{name} (today)", f"{name} (healed)", lineterm=""
    )
    for number, line in enumerate(lines):
        out.print(line, style="bold" if number < 2 else _STYLES.get(line[:1], ""), soft_wrap=True)
