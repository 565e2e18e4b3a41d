"""Proves toggles: runs the guards of each with the fix and without it, and judges what came out."""
