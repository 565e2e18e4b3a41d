"""Every exception that kvcore raises on purpose.

KVCacheError
├── OutOfSlots (RuntimeError)        the pools cannot serve an entry point, even after eviction
├── RowOverflow (IndexError)         a request would be written past the end of its row
├── SlotOutOfRange (IndexError)      a slot lies outside the buffer that it should address
├── PageAlignmentError (ValueError)  a run of slots, or a number of them, is no whole number of pages
├── KvReuseError (RuntimeError)      a diffusion block cannot go on in the slots that it kept
├── FreeGroupError (RuntimeError)    a group was begun inside another one, or is open where none may be
├── NotEnoughMemory (RuntimeError)   the memory budget holds no usable pool
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


class SlotOutOfRange(KVCacheError, IndexError):
    """A slot lies outside the buffer that it should address; nothing was written."""


class PageAlignmentError(KVCacheError, ValueError):
    """A run of slots does not start on a page boundary, or a number of slots is no whole number of pages."""


class KvReuseError(KVCacheError, RuntimeError):
    """A diffusion block does not fit the slots that its request kept for it; nothing was allocated."""


class FreeGroupError(KVCacheError, RuntimeError):
    """A group was begun inside another one (they do not nest), or is open where its frees have to count."""


class NotEnoughMemory(KVCacheError, RuntimeError):
    """The memory budget, after what must come off it first, holds no usable pool."""


class ConfigurationError(KVCacheError, ValueError):
    """A setting, or a combination of settings, that the stack cannot be built from."""


class InvariantViolation(KVCacheError, AssertionError):
    """A law of the allocation stack does not hold; the message carries both sides of it."""
