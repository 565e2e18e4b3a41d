"""A source patch of a loaded module: which functions it edits, and what it changes in each.

The function's own lines are enough in nearly every case, and cheap. Whatever they do not answer (a class or a
module as target, an edit that does not match) is asked again of the whole module, which has the final word
and gives messages the file's line numbers. Nothing is changed here.
"""

from __future__ import annotations

from types import BuiltinFunctionType, FunctionType
from typing import TYPE_CHECKING, NamedTuple

from prtoggle.code.outer_functions import function_around
from prtoggle.code.quiet import parse
from prtoggle.definitions import locate
from prtoggle.edits import plan_nodes, plan_patch
from prtoggle.errors import MatchError, StaleSourceError
from prtoggle.heap import caches_around, is_shared
from prtoggle.installers.value import plan_edited
from prtoggle.live import code_qualname, find_attribute
from prtoggle.live_refusals import not_editable, not_held, outside_functions
from prtoggle.peeling import Peeled, functions_behind, peel, refuse_compiled, search_process
from prtoggle.plans.region_splices import splices_in, within
from prtoggle.source.integrity import edit_module
from prtoggle.source.source_text import ModuleSource

if TYPE_CHECKING:
    import ast
    from collections.abc import Sequence
    from types import ModuleType

    from prtoggle.definitions import TargetNode
    from prtoggle.installers.base import Step
    from prtoggle.live import Attribute, Trail
    from prtoggle.plans.region_splices import Wanted
    from prtoggle.plans.site_maker import SiteMaker
    from prtoggle.plans.sites import Site
    from prtoggle.source.splices import Splice


class Edited(NamedTuple):
    """What a patch changes in one function, and how the name led to it.

    The splices count from the beginning of the site's region.
    """

    site: Site
    trail: Trail
    splices: tuple[Splice, ...]


class LivePlanner:
    """Plans source patches of loaded modules."""

    def __init__(self, sites: SiteMaker) -> None:
        self._sites = sites

    def plan(self, wanted: Wanted) -> tuple[list[Edited], Step | None]:
        """The functions that the patch edits; or, for a constant, the step that changes it.

        Raises a PrToggleError leaf.
        """
        qualname = wanted.resolved.qualname
        if not qualname:
            return self._by_place(wanted), None
        head, _, nested = qualname.partition(".<locals>")
        if head.rpartition(".")[2] == "_":
            # Each function of that name is what its decorator keeps; which one the name has, says nothing.
            return self._by_place(wanted), None
        attribute = find_attribute(wanted.module, head, wanted.target)
        refuse_compiled(attribute.raw, wanted.target)
        for found in peel(attribute.raw, code_qualname(head), wanted.target):
            if self._is_own(found.function, wanted.module):
                shared = is_shared(found)
                return self._all_edited(wanted, found, attribute, nested=bool(nested), shared=shared), None
        return self._indirect(wanted, attribute)

    def _is_own(self, function: FunctionType, module: ModuleType) -> bool:
        """Whether the function's code comes from the module's file: not generated, not another module's."""
        name = function.__code__.co_filename
        return function.__globals__ is vars(module) and (
            not name.startswith("<") or name.startswith("<prtoggle ")
        )

    def _all_edited(
        self, wanted: Wanted, found: Peeled, attribute: Attribute, *, nested: bool, shared: bool
    ) -> list[Edited]:
        """The function that was found, and every other that its definition made."""
        function = found.function
        # A site refers to the code that it found twice: from its basis, and from the version to come back to.
        family = self._sites.families.of(function, 2 if self._sites.knows(function) else 0)
        every = [found, *(Peeled(other, ()) for other in family[1:])]
        if shared or family[1:]:
            every = self._with_caches(every)
        return [self._edited(wanted, peeled, attribute, nested=nested) for peeled in every]

    def _with_caches(self, every: Sequence[Peeled]) -> list[Peeled]:
        """The functions, held by the caches around them, too; those that are known have theirs already."""
        if self._sites.knows(every[0].function):
            return list(every)
        caches = tuple(caches_around([peeled.function for peeled in every]))
        return [Peeled(peeled.function, (*peeled.holders, *caches)) for peeled in every]

    def _edited(self, wanted: Wanted, found: Peeled, attribute: Attribute, *, nested: bool) -> Edited:
        site = self._sites.site_of(found, attribute, wanted.target, str(wanted.resolved.file))
        return Edited(site, attribute.trail, splices_in(site.basis.region, wanted, nested=nested))

    def _indirect(self, wanted: Wanted, attribute: Attribute) -> tuple[list[Edited], Step | None]:
        """A name whose object was not compiled from a definition of that name, as far as peeling shows."""
        source, tree = self._module(wanted)
        nodes = locate(tree, wanted.resolved.qualname)
        kind = nodes[0].kind if nodes else ""
        raw = attribute.raw
        if kind == "class":
            return self._by_place(wanted), None
        if kind == "function" and _may_be_hidden(raw, wanted.module, nodes):
            qualname = code_qualname(wanted.resolved.qualname)
            found = search_process(wanted.module, qualname, None, raw, wanted.target)
            if found:
                every = self._with_caches(found)
                return [self._edited(wanted, peeled, attribute, nested=False) for peeled in every], None
        assignments = [node for node in nodes if node.kind == "assignment"]
        if assignments:
            # It may stand below a definition of that name.
            nodes = assignments
            candidates = functions_behind(
                raw, wanted.target, lambda found: self._is_own(found, wanted.module), through=True
            )
            assigned = self._assigned(wanted, attribute, list(candidates), source, tree, nodes)
            if assigned is not None:
                return [assigned], None
            if not callable(raw):
                edited = edit_module(source, tree, plan_patch(source, tree, *wanted[1:]))
                step = plan_edited(
                    wanted.module, wanted.resolved.qualname, wanted.target, source.text, edited.text
                )
                return [], step
        raise not_editable(attribute, wanted.module, wanted.target)

    def _module(self, wanted: Wanted) -> tuple[ModuleSource, ast.Module]:
        """The whole module's text, as it was loaded, and its syntax tree."""
        path = str(wanted.resolved.file)
        source = ModuleSource(path, "".join(self._sites.lines(path, vars(wanted.module))))
        try:
            return source, parse(source.text)
        except (SyntaxError, ValueError) as error:
            raise StaleSourceError(
                f"{wanted.target}: {path} was changed after its import, and is no valid Python now: {error}",
                target=wanted.target,
                file=path,
            ) from error

    def _assigned(
        self,
        wanted: Wanted,
        attribute: Attribute,
        candidates: Sequence[Peeled],
        source: ModuleSource,
        tree: ast.Module,
        nodes: Sequence[TargetNode],
    ) -> Edited | None:
        """A lambda, or a function that a factory made: this one function object alone. None without one.

        Of several, as in `b = decorate(a)`, it is the nearest one whose source the edits match.
        """
        failed: MatchError | None = None
        for found in candidates:
            code = found.function.__code__
            extent = None
            chosen = [
                node for node in locate(tree, code.co_qualname) if node.first_line == code.co_firstlineno
            ]
            if code.co_name == "<lambda>":
                chosen = [node for node in nodes if node.first_line <= code.co_firstlineno <= node.last_line]
                extent = (chosen[0].first_line - 1, chosen[0].last_line) if chosen else None
            if not chosen:
                continue
            try:
                splices = plan_nodes(source, chosen, wanted.resolved.text, wanted.patch, wanted.toggle_id)
            except MatchError as error:
                failed = failed or error
                continue
            [held] = self._with_caches([found])
            site = self._sites.site_of(held, attribute, wanted.target, source.path, extent)
            return Edited(site, attribute.trail, within(site.basis.region, source, splices, wanted.target))
        if failed is not None:
            raise failed
        return None

    def _by_place(self, wanted: Wanted) -> list[Edited]:
        """A class or a module as target: each edit belongs to the function that it stands in."""
        source, tree = self._module(wanted)
        splices = plan_patch(source, tree, *wanted[1:])
        grouped: dict[tuple[str, int], list[Splice]] = {}
        for splice in splices:
            place = function_around(source, tree, splice)
            if place is None:
                raise outside_functions(wanted.target, source.line_of(splice.start), wanted.module)
            grouped.setdefault(place, []).append(splice)
        return [
            edited
            for (qualname, line), found in grouped.items()
            for edited in self._at_place(wanted, source, qualname, line, found)
        ]

    def _at_place(
        self, wanted: Wanted, source: ModuleSource, qualname: str, line: int, splices: Sequence[Splice]
    ) -> list[Edited]:
        module = wanted.module
        target = f"{module.__name__}.{qualname}"
        attribute = find_attribute(module, qualname, target)
        name = code_qualname(qualname)
        every = [found for found in peel(attribute.raw, name, target) if self._is_at(found, module, line)][:1]
        if every and is_shared(every[0]):
            every = self._with_caches(every)
        if not every:
            hidden = search_process(module, name, line, attribute.raw, target)
            every = [found for found in hidden if self._is_at(found, module, line)]
            if not every and peel(attribute.raw, name, target):
                raise not_held(wanted.target, qualname, line)
            if not every:
                raise not_editable(attribute, module, wanted.target)
            every = self._with_caches(every)
        sites = [self._sites.site_of(found, attribute, target, source.path) for found in every]
        return [
            Edited(site, attribute.trail, within(site.basis.region, source, splices, wanted.target))
            for site in sites
        ]

    def _is_at(self, found: Peeled, module: ModuleType, line: int) -> bool:
        return self._is_own(found.function, module) and found.function.__code__.co_firstlineno == line


def _may_be_hidden(raw: object, module: ModuleType, nodes: Sequence[TargetNode]) -> bool:
    """Whether `raw` may be what a decorator made of the function, rather than something put in its place."""
    if isinstance(raw, (BuiltinFunctionType, type)):
        return False
    if (
        isinstance(raw, FunctionType)
        and raw.__globals__ is vars(module)
        and "." not in raw.__code__.co_qualname
    ):
        return False
    return any(getattr(node.node, "decorator_list", None) for node in nodes)
