"""What the pool looked like over virtual time, in a bounded number of samples."""

from __future__ import annotations

from typing import NamedTuple

_MAX_SAMPLES = 1024


class Sample(NamedTuple):
    """The state after one step; slots of the full pool, in tokens."""

    now_ms: float
    used: int
    """Held by running requests alone."""
    evictable: int
    """Held by the prefix cache, given back on demand."""
    protected: int
    """Held by the prefix cache under the lock of a running request."""
    free: int
    running: int
    waiting: int
    hit_rate: float
    """Share of the prompt tokens so far that came from the prefix cache."""


class Series:
    """Samples at even distances in steps; when they become too many, every second one is dropped."""

    def __init__(self) -> None:
        self.samples: list[Sample] = []
        self._stride = 1
        self._steps = 0

    def due(self) -> bool:
        """Whether the step that just ran is one to sample; counts the step."""
        self._steps += 1
        return self._steps % self._stride == 0

    def add(self, sample: Sample) -> None:
        """Keep ``sample``."""
        self.samples.append(sample)
        if len(self.samples) >= _MAX_SAMPLES:
            del self.samples[::2]
            self._stride *= 2
