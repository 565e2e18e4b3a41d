"""Finds the reverted fix, or set of fixes, that changes the verdict of a command: runs, search, answer."""
