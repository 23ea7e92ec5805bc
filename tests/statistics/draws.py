"""The draws behind a statistical promise: how many, and from which seed.

Seeds are fixed unless GATEWISE_SEED is set, to a whole number; pytest tells it in its first lines, so that a run can
be repeated. GATEWISE_RUNS multiplies the numbers of draws. `make test-slow` sets both.
"""

import os

import numpy as np

SEED = int(os.environ.get("GATEWISE_SEED", "0"))
TIMES = int(os.environ.get("GATEWISE_RUNS", "1"))


def draws(count, name):
    """Generators for ``count`` draws, or so many times more, of a test with this name."""
    key = [SEED, *name.encode()]
    return [np.random.default_rng([*key, number]) for number in range(count * TIMES)]
