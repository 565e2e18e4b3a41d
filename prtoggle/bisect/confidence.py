"""How sure a verdict is when a command fails only now and then.

The model: a healthy build never fails; a sick one fails each run with one probability p, independently. A run
that fails therefore decides, and the only error is a sick build that passes all of its N runs: (1 - p)^N.

p is measured where the build is known to be sick, at the end that fails, as k failures in N runs. That is
an estimate, and a lucky one would promise too much. With every p equally likely beforehand, what k of N
leaves of it is a Beta(k + 1, N - k + 1), and the mean of (1 - p)^N under it is

    product over i = 0 .. N-1 of (N - k + 1 + i) / (N + 2 + i)

(the beta-binomial probability of no failure in N further runs).
"""

from __future__ import annotations


def miss_probability(failures: int, runs: int, repeat: int) -> float:
    """The probability that a sick build passes `repeat` runs, after `failures` of `runs` runs failed."""
    product = 1.0
    for index in range(repeat):
        product *= (runs - failures + 1 + index) / (runs + 2 + index)
    return product


def confidence(failures: int, runs: int, repeat: int, passed: int) -> float:
    """A lower bound for the probability that none of `passed` sets was wrongly taken to pass."""
    return max(0.0, 1.0 - passed * miss_probability(failures, runs, repeat))
