"""What one simulation is run with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from kvcore.errors import ConfigurationError
from kvcore.page_math import align_up
from kvcore.server_args import ServerArgs, SpeculativeAlgorithm

if TYPE_CHECKING:
    from collections.abc import Mapping

CacheKind = Literal["chunk", "radix", "swa", "mamba"]
SpecKind = Literal["none", "eagle", "dflash", "ngram"]
CheckMode = Literal["every-step", "end"]

_LARGEST = 2**31 - 1
_POOL_CONTEXTS = 24
"""The default pool holds so many full contexts: enough that a batch forms, too few for all requests."""
_COMPUTE_DEFAULTS: dict[str, Any] = {
    "context_len": 256,
    "chunk_size": 64,
    "max_requests": 12,
    "pool_size": 2048,
}
"""A computed token costs a thousand times a counted one, so everything is smaller with ``compute``."""
_COMPUTE_WINDOW = 24
_TRACK_INTERVAL = 256
_COMPUTE_TRACK_INTERVAL = 16
_PROMPT_SHRINK, _OUTPUT_SHRINK = 16, 4
"""Trace lengths are divided by these with ``compute``."""
_WINDOW = 128
_ALGORITHMS = {
    "none": None,
    "eagle": SpeculativeAlgorithm.EAGLE,
    "dflash": SpeculativeAlgorithm.DFLASH,
    "ngram": SpeculativeAlgorithm.NGRAM,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationConfig:
    """Settings of a simulation, defaults filled in and checked; lengths and sizes are in tokens.

    Raises ConfigurationError for a setting, or a combination, that no stack can be built from.
    """

    page_size: int = 16
    spec: SpecKind = "eagle"
    topk: int | None = None
    steps: int | None = None
    draft_tokens: int | None = None
    pool_size: int | None = None
    max_requests: int = 64
    context_len: int = 4096
    chunk_size: int = 8192
    """Prompt tokens that one prefill step computes at most."""
    device: str = "cpu"
    seed: int = 0
    check: CheckMode = "every-step"
    cache: CacheKind = "chunk"
    window: int | None = None
    policy: str | None = None
    """What a radix cache evicts first; ``None`` is "lru"."""
    disaggregation: bool = False
    compute: bool = False
    """Run the small decoder through the pools and compare it with the dense reference."""

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> SimulationConfig:
        """From options by name; ``None`` stands for "not given" and leaves the default in force."""
        given = {name: value for name, value in options.items() if value is not None}
        defaults: dict[str, Any] = {}
        if given.get("compute"):
            defaults = dict(_COMPUTE_DEFAULTS)
            if given.get("cache") == "swa":
                defaults["window"] = _COMPUTE_WINDOW
        return cls(**{**defaults, **given})

    def __post_init__(self) -> None:
        positive = (
            "page_size",
            "topk",
            "steps",
            "draft_tokens",
            "pool_size",
            "max_requests",
            "chunk_size",
            "window",
        )
        for name in (*positive, "context_len"):
            value = getattr(self, name)
            if value is not None and not 1 <= value <= _LARGEST:
                bounds = "at least 1" if value < 1 else f"at most {_LARGEST}, the largest int32 slot"
                raise ConfigurationError(f"{_option(name)} must be {bounds}, found {value}")
        if self.seed < 0:
            raise ConfigurationError(f"--seed must be at least 0, found {self.seed}")
        if self.context_len < 2:
            raise ConfigurationError(
                "--context-len must be at least 2: one prompt token and one output token"
            )
        self._check_speculation()
        if self.window is not None and self.cache != "swa":
            raise ConfigurationError(f"--window belongs to --cache swa, found --cache {self.cache}")
        if self.policy is not None and self.cache != "radix":
            raise ConfigurationError(f"--policy belongs to --cache radix, found --cache {self.cache}")
        if self.cache == "mamba" and (self.spec != "none" or self.disaggregation):
            raise ConfigurationError(
                "--cache mamba goes with --spec none and without --disaggregation: a recurrent state cannot "
                "be taken back to the last accepted draft, and no row pool receives states from elsewhere"
            )
        if self.chunk_size < self.page_size:
            raise ConfigurationError(
                f"--chunk-size {self.chunk_size} is less than a page of {self.page_size}; give whole pages"
            )
        if self.pool_tokens < self.page_size:
            wanted = f"{_POOL_CONTEXTS} contexts" if self.pool_size is None else str(self.pool_size)
            raise ConfigurationError(
                f"--pool-size {wanted} holds no page of {self.page_size}; give at least one page"
            )

    def _check_speculation(self) -> None:
        given = [name for name in ("topk", "steps", "draft_tokens") if getattr(self, name) is not None]
        useless = {"none": given, "dflash": [n for n in given if n != "draft_tokens"]}.get(self.spec, [])
        if useless:
            raise ConfigurationError(
                f"{_option(useless[0])} means nothing with --spec {self.spec}; leave it out"
            )
        if self.spec == "eagle" and self.num_draft_tokens > 1 + self.num_steps * self.num_branches:
            raise ConfigurationError(
                f"--draft-tokens {self.num_draft_tokens} is more than a tree of {self.num_steps} steps and "
                f"{self.num_branches} branches proposes ({1 + self.num_steps * self.num_branches})"
            )

    @property
    def num_steps(self) -> int:
        """Draft steps in a row."""
        default = {"eagle": 3}.get(self.spec, 1)
        return default if self.steps is None else self.steps

    @property
    def num_branches(self) -> int:
        """Candidates per draft position."""
        default = {"eagle": 4}.get(self.spec, 1)
        return default if self.topk is None else self.topk

    @property
    def num_draft_tokens(self) -> int:
        """Tokens that a verify step looks at; 0 without speculation."""
        if self.draft_tokens is not None:
            return self.draft_tokens
        if self.spec == "eagle":
            # A chain proposes one token a step; a tree is cut to twice that, or has fewer.
            tree = min(2 * self.num_steps + 2, 1 + self.num_steps * self.num_branches)
            return self.num_steps + 1 if self.num_branches == 1 else tree
        return {"none": 0, "dflash": 16, "ngram": 12}[self.spec]

    @property
    def max_drafts_accepted(self) -> int:
        """Drafts that one verify step can accept besides the bonus token."""
        return {
            "none": 0,
            "eagle": min(self.num_steps, self.num_draft_tokens - 1),
        }.get(self.spec, self.num_draft_tokens - 1)

    @property
    def pool_tokens(self) -> int:
        """Slots of the pool, floored to whole pages."""
        wanted = _POOL_CONTEXTS * self.context_len if self.pool_size is None else self.pool_size
        return wanted // self.page_size * self.page_size

    @property
    def window_len(self) -> int:
        """Tokens that a sliding-window layer sees."""
        return _WINDOW if self.window is None else self.window

    @property
    def track_interval(self) -> int | None:
        """Tokens between two snapshots of a recurrent state; ``None`` at page size 1, which needs none."""
        if self.page_size == 1:
            return None
        return align_up(_COMPUTE_TRACK_INTERVAL if self.compute else _TRACK_INTERVAL, self.page_size)

    @property
    def overlap(self) -> bool:
        """Whether a step is prepared before the result of the one before is known.

        Not with recurrent states that are kept after the last token: they would be one token ahead.
        """
        return self.cache != "mamba" or self.track_interval is not None

    @property
    def prompt_shrink(self) -> int:
        """What the prompts of the trace are divided by."""
        return _PROMPT_SHRINK if self.compute else 1

    @property
    def output_shrink(self) -> int:
        """What the outputs of the trace are divided by."""
        return _OUTPUT_SHRINK if self.compute else 1

    def describe(self) -> str:
        """The settings that matter most, in one line."""
        spec: str = self.spec
        if spec == "eagle":
            spec = (
                f"eagle topk {self.num_branches} steps {self.num_steps} draft tokens {self.num_draft_tokens}"
            )
        elif spec != "none":
            spec = f"{spec} draft tokens {self.num_draft_tokens}"
        return f"{self.cache} cache, page size {self.page_size}, {spec}, context {self.context_len}"

    def server_args(self) -> ServerArgs:
        """The settings as the stack's sizing reads them."""
        if self.spec == "none":
            return ServerArgs(
                context_len=self.context_len,
                page_size=self.page_size,
                disable_overlap_schedule=not self.overlap,
            )
        return ServerArgs(
            context_len=self.context_len,
            page_size=self.page_size,
            speculative_algorithm=_ALGORITHMS[self.spec],
            speculative_num_steps=self.num_steps,
            speculative_eagle_topk=self.num_branches,
            speculative_num_draft_tokens=self.num_draft_tokens,
        )


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")
