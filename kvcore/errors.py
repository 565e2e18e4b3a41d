"""Every exception that kvcore raises on purpose.

KVCacheError
├── OutOfSlots (RuntimeError)        the pools cannot serve an entry point, even after eviction
├── RowOverflow (IndexError)         a request would be written past the end of its row
├── FreeGroupError (RuntimeError)    free groups nested, or ended without a beginning
├── ConfigurationError (ValueError)  arguments that no pool or stack can be built from
└── InvariantViolation (AssertionError)  the checker of kvcore.invariants found a broken law
"""

from __future__ import annotations


class KVCacheError(Exception):
    """Base of all errors raised by kvcore."""


class OutOfSlots(KVCacheError, RuntimeError):
    """An entry point found too few slots, rows or states, even after eviction; all pools are as before."""


class RowOverflow(KVCacheError, IndexError):
    """A write would run past the end of a request's row into its neighbour's; nothing was written."""


class FreeGroupError(KVCacheError, RuntimeError):
    """A free group was begun inside another one, or ended although none was open."""


class ConfigurationError(KVCacheError, ValueError):
    """A setting, or a combination of settings, that the stack cannot be built from."""


class InvariantViolation(KVCacheError, AssertionError):
    """A law of the allocation stack does not hold; the message carries both sides of it."""
