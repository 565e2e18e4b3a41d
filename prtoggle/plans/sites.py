"""One live function and its versions: what it looks like under each set of active toggles.

A version is always built from the original text with the edits of all toggles in the set, never from
another version; so toggles go on and off in any order. Versions are kept, which makes a flip of known
toggles a lookup and an exchange.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from prtoggle.code.quiet import parse
from prtoggle.code.virtual_file import ensure_readable
from prtoggle.installers.in_place import LiveFunction
from prtoggle.plans.variants import build
from prtoggle.source.empty_blocks import fill_blocks
from prtoggle.source.splices import apply_splices, merge, moved_splice

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import FunctionType

    from prtoggle.code.headers import Basis
    from prtoggle.installers.base import Follower, Observer, Variant
    from prtoggle.plans.slots import Slot
    from prtoggle.source.splices import Splice

Slots = frozenset["Slot"]


class Site:
    """A function that toggles edit, with the set of toggles that it shows now."""

    __slots__ = ("__weakref__", "_splices", "_variants", "basis", "found", "live", "shown")

    def __init__(
        self,
        basis: Basis,
        found: Variant,
        followers: Iterable[Follower],
        holders: Iterable[object],
        born: dict[Slot, tuple[Splice, ...]],
    ) -> None:
        """`found` is what the function runs now, with the edits of the slots in `born`.

        `holders` are what decorators made of it.
        """
        self.basis = basis
        self.found = found
        self.live = LiveFunction(basis.function, basis.target, found, followers, holders)
        self.shown: Slots = frozenset(born)
        self._splices = dict(born)
        self._variants: dict[Slots, Variant] = {self.shown: found}

    def learn(self, slot: Slot, splices: tuple[Splice, ...]) -> None:
        """Take note of the edits that `slot` wants here; changes nothing yet."""
        known = self._splices.get(slot)
        if known != splices:
            self._splices[slot] = splices
            if known is not None:
                self._drop(slot)

    def forget(self, slot: Slot) -> None:
        """Drop what is known of a toggle that is not shown."""
        assert slot not in self.shown, slot.id
        self._splices.pop(slot, None)
        self._drop(slot)

    def _drop(self, slot: Slot) -> None:
        for slots in [slots for slots in self._variants if slot in slots and slots != self.shown]:
            del self._variants[slots]

    def version(self, slots: Slots, observer: Observer | None = None) -> Variant:
        """The function under `slots`, built when it is not known yet, or not as the observer needs it.

        Raises EditOverlapError when their edits do not go together, and whatever `variants.build` raises.
        """
        known = self._variants.get(slots)
        if not any(slot.observed for slot in slots):
            observer = None
        if known is not None and (observer is None or known.spots or known is self.found):
            return known
        variant = build(self.basis, self._merged(slots), sorted(slot.id for slot in slots), observer)
        self._variants[slots] = variant
        return variant

    def framed(self, slots: Slots) -> str:
        """The function's text under `slots`, in the frame in which it is compiled."""
        region = self.basis.region
        return region.framed(apply_splices(region.text, self._merged(slots)))

    def _merged(self, wanted: Slots) -> tuple[Splice, ...]:
        slots = sorted(wanted, key=lambda slot: slot.id)
        if len(slots) == 1:
            return merge(self._splices[slots[0]])
        # Toggles that each leave a block one statement may empty it together.
        region = self.basis.region
        source, offset = region.source, len(region.frame.prefix)
        splices = [moved_splice(splice, offset) for slot in slots for splice in self._splices[slot]]
        if any(splice.is_deletion for splice in splices):
            splices = fill_blocks(source, parse(source.text), splices)
        return merge([moved_splice(splice, -offset) for splice in splices])

    def prepare(self, slots: Slots, observer: Observer | None = None) -> None:
        """Build and verify what `show` will need; raises, changing nothing, when it cannot be done."""
        self.live.refuse_touched()
        variant = self.version(slots, observer)
        for follower in self.live.followers:
            follower.prepare(None if variant is self.found else variant)

    def can_show(self, slots: Slots) -> bool:
        """Whether `show` exchanges known code and cannot fail: no kernel follows, nobody interfered."""
        return slots in self._variants and self.live.is_simple and self.live.is_untouched()

    def show(self, slots: Slots) -> None:
        """Exchange the function's code for its version under `slots`."""
        variant = self._variants[slots]
        ensure_readable(variant.code.co_filename)
        self.live.show(variant)
        self.shown = slots


class SiteRegistry:
    """The site of each function that has one; a site lives as long as some plan refers to it."""

    def __init__(self) -> None:
        self._sites: weakref.WeakValueDictionary[int, Site] = weakref.WeakValueDictionary()

    def get(self, function: FunctionType) -> Site | None:
        """The function's site; one whose function others changed while nothing was active is dropped."""
        site = self._sites.get(id(function))
        if site is not None and not site.shown and not site.live.is_untouched():
            del self._sites[id(function)]
            return None
        return site

    def add(self, site: Site) -> None:
        """Make the site findable by its function."""
        self._sites[id(site.basis.function)] = site
