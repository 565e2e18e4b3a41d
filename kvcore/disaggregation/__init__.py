"""Prefill and decode on different machines: slots for KV that arrives over the network."""

from __future__ import annotations
