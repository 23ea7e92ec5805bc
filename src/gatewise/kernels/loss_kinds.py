"""The one table of integer codes by which Python tells compiled code which loss to take.

Compiled functions take numbers, not names. GAUSSIAN, DOUBLE_EXPONENTIAL and STUDENT_T are the noise families of
`gatewise.noise`: the loss of a prediction z of a response y is the negative log density of the error.
OUTCOME is the log loss: z is the probability of what was observed, the response is 0, and the log density is log z.
SQUARE and ABSOLUTE are losses of a residual r, r^2 and |r|; with GIVEN the
caller has already computed the derivatives of the loss.
"""

import math

from gatewise.kernels.compiled import inner

GAUSSIAN, DOUBLE_EXPONENTIAL, STUDENT_T, SQUARE, ABSOLUTE, GIVEN, OUTCOME = range(7)
LEAST = 1e-300  # a smaller probability counts as 0


@inner
def standard_noise(kind: int, df: float) -> tuple[float, float]:
    """(scale, offset) of the noise density h of mean 0 and variance 1: log h(u) = offset - shape(u * scale).

    Gaussian: shape(v) = v^2; double exponential: |v|; Student t with df degrees of freedom:
    (df + 1) / 2 log(1 + v^2). The log loss: v = -u, the mixture, and shape(v) = -log v for the v <= 1 that it takes.
    """
    if kind == OUTCOME:
        return -1.0, 0.0
    if kind == GAUSSIAN:
        return math.sqrt(0.5), -0.5 * math.log(2.0 * math.pi)
    if kind == DOUBLE_EXPONENTIAL:
        return math.sqrt(2.0), -0.5 * math.log(2.0)
    peak = math.lgamma(0.5 * (df + 1.0)) - math.lgamma(0.5 * df) - 0.5 * math.log(math.pi * (df - 2.0))
    return 1.0 / math.sqrt(df - 2.0), peak
