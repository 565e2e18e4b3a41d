"""An edit that only changes how the code looks: a toggle of nothing else would be in force and do nothing."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Final

from prtoggle.errors import EditError
from prtoggle.source.splices import apply_splices

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prtoggle.source.source_text import ModuleSource
    from prtoggle.source.splices import Splice

# What may come and go without a change of the program: comments, layout, brackets, kinds of quotes.
_LOOKS: Final = re.compile(r"#[^\r\n]*|[\s()\\,;'\"]+")


def looks_alike(before: str, after: str) -> bool:
    """Whether two texts might be the same code; False is sure, and quick to tell."""
    return _LOOKS.sub("", before) == _LOOKS.sub("", after)


def refuse_looks(source: ModuleSource, splices: Sequence[Splice], target: str, toggle_id: str) -> None:
    """Raise EditError when all splices of a patch together leave the program as it is."""
    if not all(looks_alike(source.text[splice.start : splice.end], splice.text) for splice in splices):
        return
    try:
        before, after = ast.parse(source.text), ast.parse(apply_splices(source.text, splices))
    except (SyntaxError, ValueError):
        # Whoever compiles the edited text says what is wrong with it.
        return
    if ast.dump(before) == ast.dump(after):
        raise EditError(
            f"{target}: toggle {toggle_id} changes comments or layout only, so that the same code would run; "
            "edit a statement that the fix changed, or leave this patch out",
            target=target,
            toggles=(toggle_id,),
        )
