"""log(x) for x >= 1 as straight-line arithmetic, which the compiler can vectorise; see `exponential`."""

from gatewise.kernels.compiled import compiled_fma
from gatewise.kernels.exponential import _bits, _number, LN2_HIGH, LN2_LOW, ROUND

SQRT_HALF_BITS = 0x3FE6A09E667F3BCD  # the bits of sqrt(1/2): exponents are counted from there
ROUND_BITS = 0x4338000000000000  # the bits of ROUND: an integer added to them is added to the number

# (2 artanh(s) - 2 s) / s^3 in powers of s^2 for |s| <= (sqrt 2 - 1) / (sqrt 2 + 1), Chebyshev fit, error 4e-18.
A0, A1, A2, A3 = 0.6666666666666669, 0.39999999999903496, 0.2857142862419362, 0.22222211437476652
A4, A5, A6 = 0.18182866286536525, 0.15332500889134543, 0.14606625797625092


@compiled_fma
def log_from_one(x: float) -> float:
    """log(x) for 1 <= x < inf, absolute error below 2e-16 max(1, log x).

    x = 2^k m with m in [sqrt(1/2), sqrt 2), log m = 2 artanh(s) with s = (m - 1) / (m + 1).
    """
    bits = _bits(x)
    k = (bits - SQRT_HALF_BITS) >> 52
    m = _number(bits - (k << 52))
    exponent = _number(k + ROUND_BITS) - ROUND
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    p = A6 * z + A5
    p = p * z + A4
    p = p * z + A3
    p = p * z + A2
    p = p * z + A1
    p = p * z + A0
    value: float = exponent * LN2_HIGH + (exponent * LN2_LOW + (2.0 * s + s * z * p))
    return value
