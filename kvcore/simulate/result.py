"""What a simulation counted, and how it is told."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(slots=True)
class SimulationResult:
    """Counters of one run; lengths and sizes are in tokens, times in seconds."""

    requests: int = 0
    """Requests read from the trace."""
    finished: int = 0
    aborted: int = 0
    """Requests given up because they cannot fit into the pool even alone."""
    cut_to_context: int = 0
    """Requests shortened so that prompt and output end at the context limit."""
    prompt_tokens: int = 0
    """Prompt tokens admitted, those of readmitted requests again."""
    cached_tokens: int = 0
    """Of these, tokens whose KV the prefix cache had."""
    output_tokens: int = 0
    prefill_steps: int = 0
    decode_steps: int = 0
    retractions: int = 0
    peak_slots: int = 0
    """Most slots held at once, by requests and by the prefix cache."""
    pool_size: int = 0
    shares_prefixes: bool = False
    """There is a prefix cache that could have had hits."""
    allocations: int = 0
    """Calls of the allocation entry points."""
    evicted_tokens: int = 0
    evicted_window_tokens: int = 0
    evicted_states: int = 0
    tombstones: int = 0
    """Window slots or states taken from inner nodes that keep their full KV."""
    checks: int = 0
    """Invariant checks made."""
    compared_tokens: int = 0
    """Token positions whose logits were compared with the dense reference (``--compute``)."""
    wall_s: float = 0.0
    virtual_s: float = 0.0

    @property
    def hit_rate(self) -> float:
        """Share of the prompt tokens that the prefix cache had, 0 to 1."""
        return self.cached_tokens / self.prompt_tokens if self.prompt_tokens else 0.0

    @property
    def allocations_per_s(self) -> float:
        """Allocation calls per second of real time, whatever else the simulator did in it."""
        return self.allocations / self.wall_s if self.wall_s else 0.0

    def as_json(self) -> dict[str, Any]:
        """All counters and the two ratios, ready for ``json.dumps``."""
        counters = asdict(self)
        counters["hit_rate"] = round(self.hit_rate, 6)
        counters["allocations_per_s"] = round(self.allocations_per_s, 1)
        counters["wall_s"] = round(self.wall_s, 3)
        counters["virtual_s"] = round(self.virtual_s, 3)
        return counters

    def table(self) -> list[tuple[str, str]]:
        """Rows for people: name and value. Counters of parts that were not there are left out."""
        rows = [
            ("requests", f"{self.requests:,} ({self.finished:,} finished, {self.aborted:,} aborted)"),
            ("cut to the context", f"{self.cut_to_context:,}"),
            ("prompt tokens", f"{self.prompt_tokens:,}"),
            ("output tokens", f"{self.output_tokens:,}"),
            ("steps", f"{self.prefill_steps:,} prefill, {self.decode_steps:,} decode"),
            (
                "peak slots",
                f"{self.peak_slots:,} of {self.pool_size:,} ({self.peak_slots / self.pool_size:.0%})",
            ),
            ("retractions", f"{self.retractions:,}"),
            ("allocations", f"{self.allocations:,} ({self.allocations_per_s:,.0f} a second)"),
        ]
        if self.shares_prefixes:
            rows.append(("prefix cache hits", f"{self.cached_tokens:,} tokens ({self.hit_rate:.1%})"))
            rows.append(("evicted", f"{self.evicted_tokens:,} tokens"))
        if self.evicted_window_tokens:
            rows.append(("evicted window slots", f"{self.evicted_window_tokens:,}"))
        if self.evicted_states:
            rows.append(("evicted states", f"{self.evicted_states:,}"))
        if self.tombstones:
            rows.append(("tombstones", f"{self.tombstones:,}"))
        if self.compared_tokens:
            rows.append(("logits compared", f"{self.compared_tokens:,} tokens"))
        rows.append(("invariant checks", f"{self.checks:,}, all clean"))
        rows.append(("time", f"{self.wall_s:.1f} s for {self.virtual_s:,.0f} s of trace"))
        return rows
