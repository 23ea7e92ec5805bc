"""exp and log of eight numbers at a time, to nearly double precision."""

from gatewise.kernels.compiled import leaf
from gatewise.kernels.simd.exponential import exp_near_zero, LN2_HIGH, LN2_LOW, LOG2_E
from gatewise.kernels.simd.lanes import exponent, fill, Lanes, larger, mantissa, ROUND, smaller, times_power

FLOOR = -600.0  # exp of it times other numbers is still a normal number; processors are slow on subnormal ones
LN2 = 0.6931471805599453

# (exp(r) - 1 - r) / r^2 on |r| <= log(2) / 2, Chebyshev fit, error 6e-14.
Q2, Q3, Q4, Q5 = 0.4999999999995507, 0.16666666666662583, 0.041666666786337556, 0.008333333344209506
Q6, Q7, Q8, Q9 = 0.001388883909064138, 0.00019841224581544105, 2.4867883453521802e-05, 2.761757684835413e-06


@leaf
def exp_lanes(x: Lanes) -> Lanes:
    """exp(x) for |x| <= 600, relative error 8e-14 + 1e-16 |x|; exp(-600) or exp(600) beyond, exp(-600) of a NaN.

    x = k log 2 + r with |r| <= log(2) / 2, a polynomial in r, and 2^k put into the exponent's bits.
    """
    y = smaller(larger(x, fill(FLOOR)), fill(-FLOOR))
    shifted = y * LOG2_E + ROUND
    r = y - (shifted - ROUND) * LN2
    p = r * Q9 + Q8
    p = p * r + Q7
    p = p * r + Q6
    p = p * r + Q5
    p = p * r + Q4
    p = p * r + Q3
    p = p * r + Q2
    p = p * r + 1.0
    p = p * r + 1.0
    return times_power(p, shifted)


@leaf
def exp_fine(x: Lanes) -> Lanes:
    """exp(x) for x <= 0 to a unit in the last place, exp(-600) below -600, NaN of a NaN.

    It serves functions that are minimised, where the last digits count.
    """
    y = larger(fill(FLOOR), x)
    shifted = y * LOG2_E + ROUND
    k = shifted - ROUND
    r = (y - k * LN2_HIGH) - k * LN2_LOW
    return times_power(exp_near_zero(r), shifted)


# (2 artanh(s) - 2 s) / s^3 in powers of s^2 for |s| <= (sqrt 2 - 1) / (sqrt 2 + 1), Chebyshev fit, error 4e-18.
A0, A1, A2, A3 = 0.6666666666666669, 0.39999999999903496, 0.2857142862419362, 0.22222211437476652
A4, A5, A6 = 0.18182866286536525, 0.15332500889134543, 0.14606625797625092


@leaf
def log_lanes(x: Lanes) -> Lanes:
    """log(x) of a normal x > 0, absolute error below 4e-16 max(1, |log x|).

    x = 2^k m with m in [sqrt(1/2), sqrt 2), log m = 2 artanh(s) with s = (m - 1) / (m + 1).
    """
    k, m = exponent(x), mantissa(x)
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    p = z * A6 + A5
    p = p * z + A4
    p = p * z + A3
    p = p * z + A2
    p = p * z + A1
    p = p * z + A0
    return k * LN2_HIGH + (k * LN2_LOW + (s * 2.0 + s * z * p))
