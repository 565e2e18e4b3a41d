"""What an interpreter start calls when `PRTOGGLE` is set.

It is set, to nothing, for processes that only `PRTOGGLE_TRACE` is meant for: a start file that asks for one
name costs every other start less.

The two start files, `prtoggle.pth` and `prtoggle.start` (PEP 829), name this module.
It stands alone at the top level because Python 3.15 and later import it even when the variable is unset:
an import of the package would then cost every start of every program.
PYTEST_DONT_REWRITE: it is imported before pytest is.
"""

from __future__ import annotations

import os


def start() -> None:
    """Activates what the two variables ask for; does nothing when both are unset or empty.

    Safe to call more than once: a virtual environment reads a `.pth` file twice where `lib64` links to `lib`.
    Ends the process with status 2 when the package that is to do the work cannot be imported or fails,
    since going on would run the fixed code under the name of the reverted one.
    """
    asked = [name for name in ("PRTOGGLE", "PRTOGGLE_TRACE") if os.environ.get(name)]
    if not asked:
        return
    try:
        from prtoggle.activation import activate_from_environment  # noqa: PLC0415 (for those who asked)

        activate_from_environment()
    except Exception as error:  # noqa: BLE001 (a half removed or half copied package fails in many ways)
        message = (
            f"prtoggle: {asked[0]}={os.environ[asked[0]]} is set, but prtoggle cannot be imported or started"
            " here:\n"
            f"  {error!r}.\n"
            "  Nothing was reverted, so this process stops. Reinstall prtoggle for this interpreter, or unset"
            f" {asked[0]}.\n"
        )
        os.write(2, message.encode(errors="backslashreplace"))
        os._exit(2)
