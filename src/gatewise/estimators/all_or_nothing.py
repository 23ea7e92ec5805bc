"""Fits that either succeed or change nothing."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

Estimator = TypeVar("Estimator")
Parameters = ParamSpec("Parameters")


def all_or_nothing(
    fit: Callable[Concatenate[Estimator, Parameters], Estimator],
) -> Callable[Concatenate[Estimator, Parameters], Estimator]:
    """Decorator of ``fit``: if it raises, the estimator has the attributes again that it had before the call.

    An estimator that was fitted before then still answers as it did. The attributes must be replaced by the fit, not
    changed in place.
    """

    @wraps(fit)
    def guarded(self: Estimator, /, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Estimator:
        attributes: dict[str, Any] = vars(self)
        before = dict(attributes)
        try:
            return fit(self, *args, **kwargs)
        except BaseException:
            attributes.clear()
            attributes.update(before)
            raise

    return guarded
