"""From a toggle to its plan: each patch either changes loaded code or waits for its module."""

from __future__ import annotations

import functools
import importlib.util
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prtoggle.errors import TargetModuleError
from prtoggle.installers import value, wrapper
from prtoggle.installers.at_load import same_file
from prtoggle.installers.base import LivePatch
from prtoggle.plans.region_splices import Wanted
from prtoggle.plans.slots import Plan, SitePlan, Waiting
from prtoggle.source.splices import merge
from prtoggle.target import ModuleFile, ResolvedTarget, parse_target, refuse_main, split_name, split_target

if TYPE_CHECKING:
    from types import FrameType, ModuleType

    from prtoggle.live import Trail
    from prtoggle.plans.live_plan import LivePlanner
    from prtoggle.plans.sites import Site
    from prtoggle.plans.slots import Slot
    from prtoggle.source.splices import Splice
    from prtoggle.spec import Patch


class PlanMaker:
    """Makes the plan of one toggle. `early` allows for modules that no finder knows yet."""

    def __init__(self, live: LivePlanner, slot: Slot, *, early: bool) -> None:
        self._live = live
        self._slot = slot
        self._early = early
        self._plan = Plan()
        self._splices: dict[Site, list[Splice]] = {}
        self._trails: dict[Site, Trail] = {}

    def make(self) -> Plan:
        """Plan every patch. Raises the first PrToggleError that comes up."""
        for patch in self._slot.toggle.patches:
            self._patch(patch)
        for site, splices in self._splices.items():
            site.learn(self._slot, merge(splices))
            self._plan.sites.append(SitePlan(site, self._trails[site]))
        return self._plan

    def _patch(self, patch: Patch) -> None:
        if self._early:
            refuse_main(patch.target)
        try:
            found, qualname = _split(patch.target)
        except TargetModuleError:
            if self._early and _may_come(patch.target):
                self._plan.waiting.append(Waiting(patch, patch.target, None))
                return
            raise
        resolved = None
        if patch.changes_source or (patch.mode == "value" and found.path is not None):
            resolved = (
                ResolvedTarget(found.name, qualname, found.path) if found.path else split_target(patch.target)
            )
            self._plan.requests.append((resolved, patch))
        modules = loaded_modules(found)
        for module in modules:
            _refuse_running(module, patch.target)
            self._loaded(patch, module, resolved, qualname)
        # A module may stand in sys.modules under an alias: os.path calls itself posixpath.
        if sys.modules.get(found.name) is None:
            self._plan.waiting.append(Waiting(patch, found.name, resolved))

    def _loaded(
        self, patch: Patch, module: ModuleType, resolved: ResolvedTarget | None, qualname: str
    ) -> None:
        if patch.changes_source:
            assert resolved is not None, patch.target
            edited, step = self._live.plan(Wanted(module, resolved, patch, self._slot.id))
            for site, trail, splices in edited:
                self._splices.setdefault(site, []).extend(splices)
                self._trails[site] = trail
            if step is not None:
                self._plan.steps.append((patch, step))
            return
        plan = value.plan if patch.mode == "value" else wrapper.plan
        self._plan.steps.append((patch, plan(LivePatch(self._slot.id, patch, module, qualname))))


def _split(target: str) -> tuple[ModuleFile, str]:
    """What `split_name` gives; at once for a name in a loaded plain module, which has no submodules."""
    if ":" not in target and "<" not in target:
        name, _, _ = target.rpartition(".")
        while name:
            module = sys.modules.get(name)
            if module is not None:
                spec = getattr(module, "__spec__", None)
                path = getattr(spec, "origin", None)
                if (
                    "__path__" not in getattr(module, "__dict__", ())
                    and type(getattr(spec, "loader", None)) is SourceFileLoader
                ):
                    assert isinstance(path, str), target
                    return ModuleFile(name, "source", _path(path), loaded=True), target[len(name) + 1 :]
                break
            name, _, _ = name.rpartition(".")
    return split_name(target)


def _refuse_running(module: ModuleType, target: str) -> None:
    """Raise TargetModuleError while the module is executed: what it defines after this would be unedited."""
    if not getattr(getattr(module, "__spec__", None), "_initializing", False):
        return
    for frame in sys._current_frames().values():  # noqa: SLF001  # the documented way to see other threads
        running: FrameType | None = frame
        while running is not None:
            if running.f_globals is vars(module) and running.f_code.co_name == "<module>":
                raise TargetModuleError(
                    f"{target}: module {module.__name__} is being imported at this moment (line "
                    f"{running.f_lineno} runs): what it defines from there on would not be reverted. Revert "
                    "before it is imported, or when that is over",
                    target=target,
                    module=module.__name__,
                )
            running = running.f_back


@functools.lru_cache(maxsize=256)
def _path(text: str) -> Path:
    return Path(text)


def _may_come(target: str) -> bool:
    """Whether no finder knows the target's top-level module: it may be found once sys.path is complete."""
    top = parse_target(target).names[0]
    try:
        return top not in sys.modules and importlib.util.find_spec(top) is None
    except (ImportError, ValueError):
        return True


def loaded_modules(found: ModuleFile) -> list[ModuleType]:
    """The loaded modules that came from that file: under its own name, and as the program's main module."""
    modules = []
    module = sys.modules.get(found.name)
    if module is not None:
        modules.append(module)
    main: Any = sys.modules.get("__main__")
    if main is not None and main is not module and found.path is not None and _is_run_from(main, found):
        modules.append(main)
    return modules


def _is_run_from(main: ModuleType, found: ModuleFile) -> bool:
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        return bool(spec.name == found.name)
    file = getattr(main, "__file__", None)
    return isinstance(file, str) and same_file(file, str(found.path))
