"""The sliding-window tree as a flat set of pages: who is live, who is locked, who goes next."""

from __future__ import annotations

from dataclasses import dataclass, field

Path = tuple[int, ...]


@dataclass
class Page:
    slots: list[int]
    live: bool
    last_access: int
    window_use: int
    window_locks: int = 0


@dataclass
class Lock:
    path: Path
    covered: list[Path] = field(default_factory=list)
    """Pages under the window part of the lock."""
    released: bool = False


class SWAModel:
    """Pages are named by all tokens up to their end; ``cuts`` are the paths at which nodes end."""

    def __init__(self, page_size: int, window: int) -> None:
        self.page_size = page_size
        self.window = window
        self.pages: dict[Path, Page] = {}
        self.cuts: set[Path] = set()
        self.locks: list[Lock] = []
        self.now = 0

    def prefixes(self, ids: list[int] | Path) -> list[Path]:
        return [tuple(ids[:end]) for end in range(self.page_size, len(ids) + 1, self.page_size)]

    def known(self, ids: list[int]) -> list[Path]:
        return [path for path in self.prefixes(ids) if path in self.pages]

    def match(self, ids: list[int]) -> list[int]:
        known = self.known(ids)
        usable, run, has_tombstone = 0, 0, False
        for index, path in enumerate(known, 1):
            live = self.pages[path].live
            has_tombstone |= not live
            run = run + self.page_size if live else 0
            if not has_tombstone or run >= self.window:
                usable = index
        used = known[:usable]
        self.use(used)
        return [slot for path in used for slot in self.pages[path].slots]

    def insert(self, ids: list[int], slots: list[int], prev_len: int, hole: tuple[int, int]) -> None:
        start, end = max(prev_len, hole[0]), hole[1]
        known = self.known(ids)
        known_len = len(known) * self.page_size
        before = {path: self.pages[path].live for path in known}
        if known:
            self.cuts.add(known[-1])
        for bound in (start, end):
            left, right = tuple(ids[:bound]), tuple(ids[: bound + self.page_size])
            inside_tombstones = before.get(left) is False and before.get(right) is False
            if start < end and bound > prev_len and inside_tombstones:
                self.cuts.add(left)
        self.now += 1
        for path in known:
            at = len(path) - self.page_size
            if at >= prev_len and not start <= at < end and not self.pages[path].live:
                self.pages[path].live = True
                self.pages[path].window_use = self.now
        added = self.prefixes(ids)[len(known) :]
        if start < end and end >= len(self.prefixes(ids)) * self.page_size:
            added = [path for path in added if len(path) <= start]
        for path in added:
            at = len(path) - self.page_size
            self.pages[path] = Page(slots[at : len(path)], not start <= at < end, self.now, self.now)
        for bound in (start, end):
            if start < end and bound > known_len and tuple(ids[:bound]) in self.pages:
                self.cuts.add(tuple(ids[:bound]))
        self.use(known + added)

    def use(self, paths: list[Path]) -> None:
        self.now += 1
        if paths:
            self.cuts.add(paths[-1])
        for path in paths:
            self.pages[path].last_access = self.now
            if self.pages[path].window_locks == 0:
                self.pages[path].window_use = self.now

    def lock(self, path: Path) -> Lock:
        lock = Lock(path)
        num_covered = 0
        for node in reversed(self.nodes(path)):
            if num_covered >= self.window:
                break
            lock.covered += node
            num_covered += len(node) * self.page_size
        for covered in lock.covered:
            self.pages[covered].window_locks += 1
        self.locks.append(lock)
        return lock

    def unlock_window(self, lock: Lock) -> None:
        if lock.released:
            return
        lock.released = True
        self.now += 1
        for path in lock.covered:
            page = self.pages[path]
            page.window_locks -= 1
            if page.window_locks == 0:
                page.window_use = self.now

    def unlock(self, lock: Lock) -> list[Path]:
        self.unlock_window(lock)
        self.locks.remove(lock)
        return self._prune_hollow(lock.path)

    def evict(self, num_full: int, num_window: int) -> tuple[list[int], list[int]]:
        """Full slots and (the full slots of) window slots that are given back."""
        full: list[int] = []
        window: list[int] = []
        while len(full) < num_full:
            leaves = [path for path in self.pages if not self.children(path) and not self.is_locked(path)]
            if not leaves:
                break
            self._drop(min(leaves, key=lambda path: self.pages[path].last_access), full, window)
        while len(window) < num_window:
            live = [path for path, page in self.pages.items() if page.live and page.window_locks == 0]
            if not live:
                break
            # Of pages used at the same time the one nearest to the root goes first, with its whole node.
            first = min(live, key=lambda path: (self.pages[path].window_use, len(path)))
            node = self._node_around(first)
            if self.children(node[-1]) or self.is_locked(node[-1]):
                for path in node:
                    self.pages[path].live = False
                    window += self.pages[path].slots
            else:
                self._drop(node[-1], full, window)
        return full, window

    def is_locked(self, path: Path) -> bool:
        return any(lock.path[: len(path)] == path for lock in self.locks)

    def children(self, path: Path) -> list[Path]:
        length = len(path) + self.page_size
        return [other for other in self.pages if len(other) == length and other[: len(path)] == path]

    def nodes(self, path: Path) -> list[list[Path]]:
        """The pages up to ``path`` by node, root first."""
        nodes: list[list[Path]] = [[]]
        for page in self.prefixes(path):
            nodes[-1].append(page)
            if page in self.cuts or len(self.children(page)) != 1:
                nodes.append([])
        return [node for node in nodes if node]

    def _node_around(self, path: Path) -> list[Path]:
        while path not in self.cuts and len(self.children(path)) == 1:
            path = self.children(path)[0]
        return self.nodes(path)[-1]

    def _drop(self, leaf: Path, full: list[int], window: list[int]) -> None:
        node = self.nodes(leaf)[-1]
        for path in node:
            page = self.pages.pop(path)
            full += page.slots
            window += page.slots if page.live else []
        self.cuts -= set(node)
        for path in self._prune_hollow(node[0][: -self.page_size]):
            full += self._gone[path]

    def _prune_hollow(self, path: Path) -> list[Path]:
        """Remove tombstones that have become unlocked leaves, from ``path`` upwards."""
        removed: list[Path] = []
        self._gone: dict[Path, list[int]] = {}
        while path and not self.children(path) and not self.is_locked(path) and not self.pages[path].live:
            self._gone[path] = self.pages.pop(path).slots
            self.cuts.discard(path)
            removed.append(path)
            path = path[: -self.page_size]
        return removed
