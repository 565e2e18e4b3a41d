"""The catalogue: one YAML revert spec per historical fix of `kvcore`.

`toggles._PR_REVERT_YAML_26972` is the text of the spec with that id, read from its file at every access,
so that the spelling which inline specs use elsewhere works here too.
A toggle whose id carries a slug (`26972-page1`) has its dash written as an underscore.
"""

from __future__ import annotations

import re
from pathlib import Path

_PREFIX = "_PR_REVERT_YAML_"
_ID_LINE = re.compile(r"""^id:[ \t]*["']?([\w.-]+)""", re.MULTILINE)


def __getattr__(name: str) -> str:
    """Returns the YAML text of the spec that `name` stands for; AttributeError names those there are."""
    texts = _texts() if name.startswith(_PREFIX) else {}
    if name in texts:
        return texts[name]
    known = ", ".join(sorted(texts)) or "only names that start with " + _PREFIX
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {known}")


def __dir__() -> list[str]:
    return sorted(_texts())


def _texts() -> dict[str, str]:
    """Maps constant names to spec texts, for every spec file beside this one."""
    texts = {}
    for path in sorted(Path(__file__).parent.glob("*.yaml")):
        text = path.read_text(encoding="utf-8")
        stated = _ID_LINE.search(text)
        toggle_id = stated.group(1) if stated else path.stem
        texts[_PREFIX + re.sub(r"\W", "_", toggle_id)] = text
    return texts
