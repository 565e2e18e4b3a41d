"""Drives the hard cases through the public API: one toggle for each spec, one `revert` for each call."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import prtoggle


class Adapter:
    """What `hardcases.py --adapter hardcase_adapter:Adapter` asks for."""

    name = "prtoggle"
    multi_target = True

    def apply(self, specs: list[dict[str, Any]]) -> prtoggle.Handle:
        return prtoggle.revert(*map(_toggle, specs))

    def restore(self, handle: prtoggle.Handle) -> None:
        handle.restore()

    def child_env(self, specs: list[dict[str, Any]]) -> dict[str, str]:
        """The variables by which a child process does the same from its start."""
        folder = Path(tempfile.mkdtemp(prefix="prtoggle_hardcase_"))
        toggles = [_toggle(spec) for spec in specs]
        for toggle in toggles:
            (folder / f"{toggle.id}.yaml").write_text(toggle.text, encoding="utf-8")
        paths = [str(folder), *filter(None, [os.environ.get("PRTOGGLE_PATH")])]
        return {
            "PRTOGGLE": ",".join(toggle.id for toggle in toggles),
            "PRTOGGLE_PATH": os.pathsep.join(paths),
        }


def _toggle(spec: dict[str, Any]) -> prtoggle.Toggle:
    """The spec as a toggle whose id stands for its contents: the same spec twice is the same toggle."""
    text = json.dumps(spec, ensure_ascii=False, sort_keys=True)
    toggle_id = f"case-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    return prtoggle.load(json.dumps({"id": toggle_id, "patches": [spec]}, ensure_ascii=False))
