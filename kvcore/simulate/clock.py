"""Virtual time: what a step costs on an imagined accelerator. Nothing here sleeps or reads a clock."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class VirtualClock:
    """Milliseconds since the start of the trace, moved by the steps that run and by the gaps without work."""

    step_ms: float = 25.0
    """Fixed cost of any step."""
    token_ms: float = 0.02
    """Cost of one computed prompt token: 50,000 tokens a second."""
    now_ms: float = 0.0

    def step(self, num_tokens: int) -> None:
        """Pass the time of a step that computes ``num_tokens`` prompt tokens (0 for a decode step)."""
        self.now_ms += self.step_ms + num_tokens * self.token_ms

    def after(self, num_tokens: int) -> float:
        """When the KV of ``num_tokens`` tokens is here that another machine starts to compute now."""
        return self.now_ms + self.step_ms + num_tokens * self.token_ms

    def wait_until(self, arrival_ms: float) -> None:
        """Jump to the arrival of the next request, never back."""
        self.now_ms = max(self.now_ms, arrival_ms)
