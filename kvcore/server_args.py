"""The settings that sizing depends on, and the one accessor to the process-wide instance."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from kvcore.errors import ConfigurationError


class SpeculativeAlgorithm(enum.Enum):
    """How draft tokens are proposed."""

    EAGLE = "EAGLE"
    EAGLE3 = "EAGLE3"
    STANDALONE = "STANDALONE"
    FROZEN_KV_MTP = "FROZEN_KV_MTP"
    NGRAM = "NGRAM"
    DFLASH = "DFLASH"
    DSPARK = "DSPARK"

    def has_draft_kv(self) -> bool:
        """Whether proposing writes KV of its own; n-gram lookup runs no draft model."""
        return self is not SpeculativeAlgorithm.NGRAM

    def drafts_in_blocks(self) -> bool:
        """Whether a step drafts one block of ``num_draft_tokens`` instead of a chain or tree of steps."""
        return self in {SpeculativeAlgorithm.DFLASH, SpeculativeAlgorithm.DSPARK}


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerArgs:
    """Settings of one server; lengths and sizes are in tokens.

    Raises ConfigurationError for a value, or a combination, that no stack can be built from.
    """

    context_len: int
    """Longest sequence that the model accepts."""
    page_size: int = 1
    """Slots per page of the attention kernel."""
    dcp_size: int = 1
    """Ranks that share one request's KV (decode context parallelism)."""
    speculative_algorithm: SpeculativeAlgorithm | None = None
    speculative_num_steps: int | None = None
    """Draft steps in a row; ``None`` and 0 count as 1."""
    speculative_eagle_topk: int | None = None
    """Branches of the draft tree; ``None`` and 0 count as 1."""
    speculative_num_draft_tokens: int | None = None
    """Tokens that one verification looks at, per request."""
    speculative_candidate_steps: tuple[int, ...] = ()
    """Adaptive speculation: the step counts it may switch between; empty when the count is fixed."""
    disable_overlap_schedule: bool = False
    """Each step's result is known before the next step is prepared."""

    def __post_init__(self) -> None:
        self._require_positive()
        if self.speculative_algorithm is not None and self.speculative_num_draft_tokens is None:
            msg = (
                f"{self.speculative_algorithm.value} needs speculative_num_draft_tokens, the tokens verified "
                "per request and step; EAGLE with topk 1 uses num_steps + 1"
            )
            raise ConfigurationError(msg)
        if self.speculative_candidate_steps and self.topk > 1:
            msg = (
                f"adaptive speculation (steps {self.speculative_candidate_steps}) drafts one chain, but "
                f"speculative_eagle_topk is {self.topk}; set it to 1 or give no candidate steps"
            )
            raise ConfigurationError(msg)

    def _require_positive(self) -> None:
        at_least_one = {
            "context_len": self.context_len,
            "page_size": self.page_size,
            "dcp_size": self.dcp_size,
            "min(speculative_candidate_steps)": min(self.speculative_candidate_steps, default=1),
        }
        if self.speculative_num_draft_tokens is not None:
            at_least_one["speculative_num_draft_tokens"] = self.speculative_num_draft_tokens
        not_negative = {
            "speculative_num_steps": self.speculative_num_steps or 0,
            "speculative_eagle_topk": self.speculative_eagle_topk or 0,
        }
        for bound, fields in ((1, at_least_one), (0, not_negative)):
            for name, value in fields.items():
                if value < bound:
                    raise ConfigurationError(f"{name} must be at least {bound}, found {value}")

    @property
    def alloc_page_size(self) -> int:
        """Slots per page of the allocator: one page of each rank of a group (sgl-project/sglang#35424)."""
        return self.page_size * self.dcp_size

    @property
    def num_steps(self) -> int:
        """Draft steps, at least 1."""
        return self.speculative_num_steps or 1

    @property
    def topk(self) -> int:
        """Branches of the draft tree, at least 1."""
        return self.speculative_eagle_topk or 1

    @property
    def max_speculative_num_draft_tokens(self) -> int | None:
        """Most tokens that any verification looks at; ``None`` without a setting.

        Adaptive speculation verifies the chain and one bonus token.
        """
        if self.speculative_candidate_steps:
            return max(self.speculative_candidate_steps) + 1
        return self.speculative_num_draft_tokens


_server_args: ServerArgs | None = None


def get_server_args() -> ServerArgs:
    """The process-wide settings; raises ConfigurationError before ``set_server_args``."""
    if _server_args is None:
        raise ConfigurationError("no server settings yet; call kvcore.server_args.set_server_args first")
    return _server_args


def set_server_args(server_args: ServerArgs | None) -> None:
    """Make ``server_args`` the process-wide settings; ``None`` forgets them (tests)."""
    global _server_args  # noqa: PLW0603  # the one accessor to process-wide state
    _server_args = server_args
