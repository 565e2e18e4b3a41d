"""From a fix, as git knows it, to a spec that takes it out of today's code."""
