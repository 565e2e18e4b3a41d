"""The KV-cache allocation stack of an LLM serving engine: sizing, slots, pages, rows and prefix caches."""

from __future__ import annotations
