"""`PRTOGGLE` at interpreter start: what it names is reverted in this process and in its children.

The start file calls `activate_from_environment` once, before anything of the program is loaded. What then
goes wrong, at once or when a target is imported later, ends the process: the message goes to file
descriptor 2 and the status is 2. An exception would not do, for Python prints and ignores one that a start
file raises, and an importer may swallow one that an import raises.

No process is ever started here: it would inherit the variable and start the next one.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import traceback
from typing import TYPE_CHECKING, ClassVar, Final, NoReturn

from prtoggle import engine, import_failure, reach, recording, report, unfound
from prtoggle.catalog import Catalog
from prtoggle.catalogue_folders import INHERITED_VARIABLE
from prtoggle.errors import ActivationError, PrToggleError, TargetModuleError
from prtoggle.main_script import (
    program_folder_on_path,
    refuse_main_module_targets,
    refuse_script_targets,
)
from prtoggle.spec import normalise_id
from prtoggle.states import Failed
from prtoggle.target import dotted_prefixes
from prtoggle.trace.settings import VARIABLE as TRACE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from prtoggle.handle import Handle
    from prtoggle.recording import Recording
    from prtoggle.spec import Toggle
    from prtoggle.states import Event
    from prtoggle.trace.session import TraceSession

FAILED: Final = 2
TOGGLES: Final = "PRTOGGLE"
#: Set for children: the absolute folders of the catalogues, for a child that starts in another folder.
CATALOGUES: Final = INHERITED_VARIABLE
REPORT: Final = report.VARIABLE

#: Called with the message before a process ends on a failure; who redirected descriptor 2 puts it back here.
before_exit: list[Callable[[str], object]] = []


class _Session:
    """What the environment asked of this process; there is one."""

    handles: ClassVar[list[Handle]] = []
    #: What was asked for, also while it is being activated.
    ids: ClassVar[set[str]] = set()
    #: The toggles of the load that fails just now.
    failing: ClassVar[set[str]] = set()
    recording: Recording | None = None
    trace: TraceSession | None = None
    started = False
    #: Whether somebody else tells of modules that were never found.
    hosted = False
    #: Whether anybody listens to what is reached.
    observed = False


def parse_ids(text: str) -> list[str]:
    """The ids of a comma list, each once, in order; none for an empty text.

    Raises ActivationError for a list with an empty item, SpecError for an item that is no id.
    """
    items = [item.strip() for item in text.split(",")] if text else []
    if "" in items:
        raise ActivationError(f"{text!r} is not a comma list of toggle ids: an item of it is empty")
    return list(dict.fromkeys(normalise_id(item) for item in items))


def catalogue_folders(catalog: Catalog) -> str:
    """The value of `PRTOGGLE_CATALOGUES` that leads a child process to the same specs, wherever it starts."""
    return os.pathsep.join(str(folder.path.absolute()) for folder in catalog.folders)


def activated() -> tuple[Toggle, ...]:
    """The toggles that are reverted for the whole process, in the order in which they were asked for."""
    return tuple(toggle for handle in _Session.handles for toggle in handle.toggles)


def activate_from_environment() -> None:
    """Reverts what `PRTOGGLE` names and traces what `PRTOGGLE_TRACE` does, or ends the process.

    The second call of a process does nothing.
    """
    if _Session.started:
        return
    _Session.started = True
    try:
        _Session.recording = recording.begin(os.environ.get(REPORT, ""), _complain)
        _Session.observed = _Session.recording is not None
        if os.environ.get(TOGGLES):
            _activate(parse_ids(os.environ[TOGGLES]))
        if os.environ.get(TRACE):
            _trace(os.environ[TRACE])
    except PrToggleError as error:
        fail(error)
    except Exception as error:  # noqa: BLE001 (Python would print it, go on, and run the fixed code)
        fail(error)


def is_observed() -> bool:
    """Whether it is known of every toggle that is reverted for the whole process whether it was reached."""
    return _Session.observed


def unfound_by_now() -> dict[str, str]:
    """Toggle to what is missing, where no finder knows a target's module; whoever asks has to tell it."""
    _Session.hosted = True
    return dict(unfound.unfound(_Session.ids))


def activate_session(ids: Iterable[str]) -> None:
    """Reverts `ids` for the rest of this process, beside what its environment asked for, and in its children.

    For a host that reports errors itself, such as pytest: raises a `PrToggleError`, with nothing changed,
    where `activate_from_environment` would end the process. An edit that fails later, when its target is
    imported, ends the process all the same.
    """
    active = [toggle.id for toggle in activated()]
    asked = [toggle_id for toggle_id in ids if toggle_id not in active]
    if asked:
        _Session.observed = _Session.observed or not active
        _activate(asked)
        os.environ[TOGGLES] = ",".join([*active, *asked])


def fail(error: BaseException) -> NoReturn:
    """Ends the process with status 2, from whichever thread: a toggle was asked for that is not in effect."""
    # Whatever goes wrong while the failure is told, the process does not go on.
    try:
        if _Session.recording is not None:
            _Session.recording.write("failed", message=str(error))
        for callback in before_exit:
            with contextlib.suppress(Exception):
                callback(str(error))
        # What the program has printed so far may be what explains the failure; os._exit would drop it.
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        _complain(_message(error))
    finally:
        os._exit(FAILED)


def _note_failure(event: Event) -> None:
    if isinstance(event, Failed):
        _Session.failing.add(event.toggle_id)


def _load_failed(error: PrToggleError) -> None:
    """Ends the process, unless the load fails only for toggles that the program itself reverted.

    Those raise out of the import, to whoever called `prtoggle.revert`.
    """
    failing = set(_Session.failing)
    _Session.failing.clear()
    if not failing or failing & _Session.ids:
        fail(error)


def _verify_at_exit() -> None:
    """Ends the process with status 2 when a target's module got here past every loader that was watched.

    A finder of the program's own that compiles by itself, or a module put into `sys.modules` by hand, is seen
    by nobody at the time. That the run was not what was asked for is still said.
    """
    for message in failures():
        fail(ActivationError(message))


def failures() -> list[str]:
    """What of that which was asked for the whole process is not in effect, although its module was loaded."""
    return [
        f"toggle {state.toggle.id}, {patch.target}: {patch.note}"
        for state in engine.states()
        for patch in state.patches
        if state.toggle.id in _Session.ids and patch.state == "failed"
    ]


def _tell_unfound() -> None:
    if not _Session.hosted:
        unfound.tell(_Session.ids)


def _message(error: BaseException) -> str:
    names = TOGGLES, TRACE
    asked = " ".join(f"{name}={os.environ[name]}" for name in names if os.environ.get(name)) or f"{TOGGLES}="
    head = f"prtoggle: {asked} cannot be honoured in process {os.getpid()}: {' '.join(sys.orig_argv)}"
    instead = "run the fixed code" if os.environ.get(TOGGLES) or TRACE not in os.environ else "run untraced"
    if isinstance(error, PrToggleError):
        cause = import_failure.own_error(error)
        body = f"{cause}\n{error}" if cause else str(error)
    else:
        body = "".join(traceback.format_exception(error)).rstrip()
    indented = "\n".join(f"  {line}" for line in body.splitlines())
    return f"{head}\n{indented}\n  The process ends here with status {FAILED}, rather than {instead}.\n"


def _complain(text: str) -> None:
    """Writes to descriptor 2, whatever the program has made of `sys.stderr`."""
    data = text.encode(errors="backslashreplace")
    with contextlib.suppress(OSError):
        while data:
            data = data[os.write(2, data) :]


def _chosen(ids: Iterable[str]) -> tuple[Catalog, list[Toggle]]:
    """The toggles, and the catalogues that they come from; refuses those of the script that is run."""
    catalog = Catalog.discover()
    toggles = catalog.select(ids)
    refuse_script_targets(toggles)
    return catalog, toggles


def _see_it_through(catalog: Catalog, toggles: Sequence[Toggle]) -> None:
    """Watches the imports that the toggles depend on, and leads children to the same specs."""
    import_failure.watch(_modules_on_the_way(toggles), _import_failed)
    os.environ[CATALOGUES] = catalogue_folders(catalog)


def _activate(ids: Sequence[str]) -> None:
    """Reverts `ids` and leaves in the environment what children need; with an error, it did neither."""
    catalog, toggles = _chosen(ids)
    if engine.on_load_failure is None:
        engine.subscribe(_note_failure)
        engine.on_load_failure = _load_failed
        atexit.register(_verify_at_exit)
        atexit.register(_tell_unfound)
    _Session.ids.update(ids)
    if _Session.observed:
        reach.start()
    with program_folder_on_path():
        handle = engine.revert(toggles, origin="env", observe=_Session.observed)
    _Session.handles.append(handle)
    _see_it_through(catalog, toggles)


def _trace(text: str) -> None:
    """Begins to trace what the variable names; not in a process that outlives the run that asked for it."""
    from prtoggle.trace.session import TraceSession  # noqa: PLC0415  # for those who trace
    from prtoggle.trace.settings import TraceSettings  # noqa: PLC0415

    settings = TraceSettings.of_text(text)
    if _Session.recording is None:
        if not os.environ.get(REPORT):
            raise ActivationError(
                f"{TRACE} is set and {REPORT} is not, so that nobody would read what is found; use `prtoggle "
                "trace`, which sets both"
            )
        return
    catalog, toggles = _chosen(settings.toggles)
    refuse_main_module_targets(toggles)
    with program_folder_on_path():
        _Session.trace = TraceSession(toggles, settings, _Session.recording.write, fail)
        _Session.trace.start()
    _Session.recording.write("trace", toggles=list(settings.toggles))
    atexit.register(_Session.trace.finish)
    _see_it_through(catalog, toggles)


def _modules_on_the_way(toggles: Iterable[Toggle]) -> set[str]:
    """Every dotted prefix of the targets: their modules, the packages of those, names that are no module."""
    return {name for toggle in toggles for target in toggle.targets for name in dotted_prefixes(target)}


def _import_failed(module: str, error: Exception) -> NoReturn:
    if isinstance(error, PrToggleError):
        fail(error)
    failure = TargetModuleError(
        f"module {module}, which a target is in, failed to import (its own error is above); what its "
        "importer does without it is not what was asked for",
        module=module,
    )
    failure.__cause__ = error
    fail(failure)
