"""One sentence for every expert: learned, no more than a random router, redundant, or cannot be told."""

from dataclasses import dataclass
from typing import Any

from gatewise.nn.xray.trace import Trace

ALPHA = 0.05
LEARNED = "learned"
RANDOM = "no more than a random router"
REDUNDANT = "redundant"
UNKNOWN = "cannot be told"


@dataclass(frozen=True)
class ExpertVerdict:
    """The verdict of one expert, and why."""

    layer: int
    expert: int
    verdict: str
    reason: str


def verdicts(trace: Trace) -> tuple[ExpertVerdict, ...]:
    """The verdicts of all experts, from what was asked so far: usage against random routers, and redundancy.

    Redundant is an expert that another one serves to within the margin. Learned is one that tells more about the
    class of a token than random routers of the same load do, and than it told at the initial checkpoint, where that
    was given. One that does not, and whose information surely is
    within the 95 % quantile of random routers, is no more than a random router. The rest cannot be told.
    """
    usage: Any = trace.findings.get("usage router")
    substitutes = {(one.layer, one.expert): one for one in trace.findings.get("redundancy", ())}
    found = []
    for number, layer in enumerate(trace.layers):
        for m in range(layer.n_experts):
            used = None if usage is None else usage.layers[number]
            found.append(ExpertVerdict(number, m, *_verdict(used, substitutes.get((number, m)), m)))
    return tuple(found)


def _verdict(used: Any, substitute: Any, m: int) -> tuple[str, str]:
    if substitute is not None and substitute.redundant:
        return REDUNDANT, f"expert {substitute.substitute} serves its tokens as well, to within the margin"
    if used is None or not used.tested[m]:
        usage = "its usage was not compared with random routers: call trace.usage(classes)"
        return UNKNOWN, usage if used is None else "it is chosen too seldom, or in too few documents"
    if used.p_values[m] <= ALPHA:
        said = f"{used.excess[m].value:.3f} bits about the class beyond random routers of its load"
        if used.initial is not None and used.initial.p_values[m] > ALPHA:
            return UNKNOWN, f"{said}, but not beyond the initial checkpoint"
        return LEARNED, said
    if used.null[m] + used.excess[m].high <= used.null_high[m]:
        return (
            RANDOM,
            f"random routers of its load tell up to {used.null_high[m]:.3f} bits, and this expert surely less",
        )
    mean = "beyond the mean random router, but single ones tell as much"
    neither = "neither beyond random routers nor surely within them: more documents are needed"
    return UNKNOWN, mean if used.excess[m].low > 0 else neither
