"""What the aggregate of a net gives to every class one step ahead, not only to the class that came."""

import numpy as np

from gatewise.aggregation.engine import aggregate
from gatewise.aggregation.ordered import AggregationSetting, log_prior, Observations
from gatewise.aggregation.particles.particle_run import Particles
from gatewise.aggregation.weight_steps import weight_steps
from gatewise.arrays import Floats, Indices

NOTHING = 1e-300  # a power of a density that changes no weight
MOST = 2**30  # candidates times steps times experts: less than a second for a product net


def class_forecasts(
    setting: AggregationSetting, sample: Observations, order: Indices, P: Floats, codes: Indices
) -> Floats | None:
    """The aggregate's probabilities of all classes at the aggregation rows of an order, one step ahead, (n3, C).

    P (n, M, C) are the experts' probabilities and codes (n,) the numbers of the classes that came. The rows pass once
    more, and before each of them all classes are asked for, in steps whose densities count to the power `NOTHING`.
    None for `Particles`, which would move differently, and where this is more work than `MOST`.
    """
    start, C = setting.counts.burn_in + setting.counts.calibration, P.shape[2]
    part = order[start : start + setting.counts.aggregation]
    rows = sample.part(part)
    steps = weight_steps(np.ones(len(part)) if rows.copies is None else rows.copies)
    asked = np.repeat(np.arange(len(part)), C)
    row = np.concatenate([asked, steps.row])
    if isinstance(setting.net, Particles) or setting.net.size * len(row) * P.shape[1] > MOST:
        return None
    passing = np.argsort(row, kind="stable")  # what is asked of a row comes before its own steps
    code = np.concatenate([np.tile(np.arange(C), len(part)), codes[part][steps.row]])[passing]
    power = np.concatenate([np.full(len(asked), NOTHING), steps.power])[passing]
    row = row[passing]
    run = aggregate(
        setting.candidates(setting.net),
        setting.gate.features(rows.rows)[row],
        np.zeros(len(row)),  # the residual of a mixture z is -z
        P[part[row], :, code],
        1.0,
        setting.noise,
        log_prior(setting.net),
        None,
        setting.n_threads,
        power,
    )
    return run.predictions[passing < len(asked)].reshape(len(part), C)
