"""Makes the site of a live function: finds its text, proves it, and finds what follows it."""

from __future__ import annotations

import gc
import inspect
import sys
from types import FunctionType, MappingProxyType
from typing import TYPE_CHECKING, Any

from prtoggle.code.headers import Basis
from prtoggle.code.region import find_region, source_lines
from prtoggle.code.signature import extras_of
from prtoggle.errors import PrToggleError, UnsupportedTargetError
from prtoggle.heap import Families, caches_around
from prtoggle.installers.in_place import cache_follower, refuse_free_threaded, unedited
from prtoggle.installers.probes import forms_of
from prtoggle.installers.triton_jit import follower_of
from prtoggle.installers.triton_kernels import with_kernels
from prtoggle.live import find_attribute
from prtoggle.peeling import Peeled, peel
from prtoggle.plans.sites import Site
from prtoggle.scripted import refuse_scripted
from prtoggle.source.splices import apply_splices

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import CodeType

    from prtoggle.installers.base import Follower
    from prtoggle.live import Attribute
    from prtoggle.plans.births import Birth, Births, Unit
    from prtoggle.plans.sites import SiteRegistry


class SiteMaker:
    """Finds and makes sites; one function has one site, whoever asks."""

    def __init__(self, registry: SiteRegistry, births: Births) -> None:
        self._registry = registry
        self.births = births
        self.families = Families()

    def lines(self, path: str, namespace: dict[str, Any]) -> list[str]:
        """The lines of a loaded module: as they were when it was loaded with edits, else as they are."""
        birth = self.births.of_path(path)
        return source_lines(path, namespace) if birth is None else birth.lines

    def knows(self, function: FunctionType) -> bool:
        """Whether the function has its site already."""
        return self._registry.get(function) is not None

    def site_of(
        self,
        found: Peeled,
        attribute: Attribute | None,
        target: str,
        path: str,
        extent: tuple[int, int] | None = None,
    ) -> Site:
        """The function's site; `extent` gives its first and end line index where they are known.

        Raises StaleSourceError when the function does not run the text of its file, UnsupportedTargetError
        when it cannot be exchanged.
        """
        site = self._registry.get(found.function)
        if site is None:
            refuse_free_threaded(target)
            namespace: Mapping[str, Any] = MappingProxyType({})
            if attribute is not None and isinstance(attribute.owner, type):
                namespace = vars(attribute.owner)
            site = self._new(found, namespace, target, path, extent)
            self._registry.add(site)
        return site

    def _new(
        self,
        found: Peeled,
        class_namespace: Mapping[str, Any],
        target: str,
        path: str,
        extent: tuple[int, int] | None,
    ) -> Site:
        function, code = found.function, found.function.__code__
        refuse_scripted(function, target)
        born = self.births.of_code(code)
        if born is not None:
            _refuse_inner(code, target, *born)
            return self._born(found, class_namespace, target, *born)
        lines = self.lines(path, function.__globals__)
        region = find_region(code, function.__globals__, lines, path, target, extent=extent)
        basis = Basis(target, function, code, extras_of(function), (), region, class_namespace)
        return Site(basis, unedited(function, target), _followers(found, target), found.holders, {})

    def _born(
        self, found: Peeled, class_namespace: Mapping[str, Any], target: str, birth: Birth, unit: Unit
    ) -> Site:
        if unit.splices is None:
            raise UnsupportedTargetError(
                f"{target}: a toggle that was in force when {birth.name} was loaded changed more than this "
                "function's own lines, so that it cannot be exchanged alone; restart the process without it",
                target=target,
            )
        function = found.function
        merged = unit.merged()
        code = _plain_of(function.__code__, unit)
        region = find_region(
            code,
            function.__globals__,
            birth.lines,
            birth.path,
            target,
            extent=(unit.start, unit.end),
            present=lambda text: apply_splices(text, merged),
        )
        basis = Basis(
            target,
            function,
            code,
            extras_of(function),
            merged,
            region,
            class_namespace,
        )
        site = Site(basis, unedited(function, target), _followers(found, target), found.holders, unit.splices)
        # What it runs may soon be other code, by which it could not be found any more.
        unit.sites.append(site)
        return site

    def born_sites(self, birth: Birth, unit: Unit) -> list[Site]:
        """The sites of all functions that were made from one edited function of a load."""
        target = f"{birth.name}.{unit.qualname}"
        running = _running(birth, unit)
        made = [found.function for found, _ in running]
        self.families.add(made)
        caches = tuple(caches_around(made))
        for peeled, attribute in running:
            found = Peeled(peeled.function, (*peeled.holders, *caches))
            self.site_of(found, attribute, target, birth.path)
        return unit.sites


def _refuse_inner(code: CodeType, target: str, birth: Birth, unit: Unit) -> None:
    """Raise UnsupportedTargetError for a function that an edited one made: its edits are the maker's."""
    if code.co_qualname != unit.qualname:
        ids = ", ".join(sorted(slot.id for slot in unit.slots))
        raise UnsupportedTargetError(
            f"{target}: this function was made by {unit.qualname} while {birth.name} was loaded with toggle "
            f"{ids} in it; restore that first, or arm both before the module is loaded",
            target=target,
        )


def _plain_of(code: CodeType, unit: Unit) -> CodeType:
    """The code that a probed form stands for; a copy that a decorator such as types.coroutine made, too."""
    if unit.code is None or unit.plain is None:
        return code
    flag = code.co_flags & inspect.CO_ITERABLE_COROUTINE
    for form in forms_of(unit.code):
        if code is form:
            return unit.plain
        if flag and code == form.replace(co_flags=form.co_flags | flag):
            return unit.plain.replace(co_flags=unit.plain.co_flags | flag)
    return code


def running_functions(unit: Unit) -> list[FunctionType]:
    """Every function of the process that runs the unit's code."""
    codes = [form for code in (unit.code, unit.plain) if code is not None for form in forms_of(code)]
    found = [
        item
        for item in gc.get_referrers(*codes)
        if type(item) is FunctionType and any(item.__code__ is code for code in codes)
    ]
    # A decorator such as types.coroutine gives its function a changed copy of the code.
    return found or [
        item
        for item in gc.get_objects()
        if type(item) is FunctionType
        and item.__code__.co_filename == unit.filename
        and item.__code__.co_qualname == unit.qualname
    ]


def _running(birth: Birth, unit: Unit) -> list[tuple[Peeled, Attribute | None]]:
    """The functions that run the unit's code, with what decorators put around them."""
    done: list[tuple[Peeled, Attribute | None]] = []
    for function in running_functions(unit):
        peeled, attribute = Peeled(function, ()), None
        module = sys.modules.get(function.__globals__.get("__name__", ""))
        if module is not None and vars(module) is function.__globals__:
            try:
                attribute = find_attribute(module, unit.qualname, f"{birth.name}.{unit.qualname}")
                for found in peel(attribute.raw, unit.qualname, birth.name):
                    if found.function is function:
                        peeled = found
            except PrToggleError:
                # The name is gone or stands for something else by now; the function is still there.
                attribute = None
        done.append((peeled, attribute))
    return done


def _followers(found: Peeled, target: str) -> list[Follower]:
    followers = []
    holders = tuple({id(holder): holder for holder in found.holders}.values())
    for holder in with_kernels(holders, found.function):
        follower = cache_follower(holder) or follower_of(holder, found.function, target)
        if follower is not None:
            followers.append(follower)
    # The innermost first: what is around it derives from what it holds.
    return followers[::-1]
