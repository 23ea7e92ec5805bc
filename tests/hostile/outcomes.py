"""How a hostile case ends: with a right answer, with a clear error, or badly; and how long it took."""

import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

LIMIT_S = 10.0  # of computing; on a busy machine a case may wait
TALLY: dict[str, dict[str, int]] = {}


@dataclass(frozen=True)
class Case:
    """A call with bad input. ``names``: words one of which a clear error must have; ``answer``: whether one may come.

    An answer is right if ``answer`` says so of the result; False if none can be.
    """

    group: str
    name: str
    call: Any
    names: tuple[str, ...] = ()
    answer: Any = False

    def __str__(self) -> str:
        return f"{self.group}: {self.name}"


def run(case: Case) -> str:
    """The outcome of a case in a word; every outcome but "right" and "clear" is a fault."""
    began, waited = time.process_time(), time.monotonic()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = case.call()
            outcome = "right" if case.answer is not False and case.answer(result) else f"wrong: {result!r:.120}"
        except (ValueError, TypeError, OSError) as error:
            words = " ".join([str(error), *getattr(error, "__notes__", ())])
            clear = bool(words.strip()) and (not case.names or any(name in words for name in case.names))
            outcome = "clear" if clear else f"unclear: {type(error).__name__}: {words:.160}"
        except Exception as error:  # of an expert, which keeps its type and is named in a note
            noted = any(name in note for name in case.names for note in getattr(error, "__notes__", ()))
            outcome = "clear" if noted else f"unclear: {type(error).__name__}: {error!s:.160}"
    computed, waited = time.process_time() - began, time.monotonic() - waited
    if computed > LIMIT_S or waited > 30 * LIMIT_S:
        outcome = f"hang: {computed:.0f} s of {waited:.0f} s"
    tally = TALLY.setdefault(case.group, {"right": 0, "clear": 0, "bad": 0})
    tally[outcome if outcome in tally else "bad"] += 1
    return outcome


def is_number(value: Any) -> bool:
    """Whether a result holds no NaN."""
    try:
        return not np.isnan(np.asarray(value, dtype=np.float64)).any()
    except (TypeError, ValueError, OverflowError):
        return value is not None


def on_the_simplex(weights: Any) -> bool:
    """Whether weights are not negative and have sum one along their last axis."""
    array = np.asarray(weights)
    return bool(np.isfinite(array).all() and (array >= 0).all() and np.allclose(array.sum(axis=-1), 1.0))
