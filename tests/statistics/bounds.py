"""Bounds for a number of successes: beyond them a promise is broken, save in one run of a thousand."""

from scipy import stats

RARE = 1e-3


def most(runs, chance):
    """The largest number of successes that is not rare if each has at most this chance."""
    return int(stats.binom.ppf(1.0 - RARE, runs, chance))


def least(runs, chance):
    """The smallest number of successes that is not rare if each has at least this chance."""
    return int(stats.binom.ppf(RARE, runs, chance))
