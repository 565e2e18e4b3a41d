"""What became of a toggle's code since it was last known to fit, and how its spec has to change."""
