"""The summary of a fitted `MoERegressor`: as text, and as plain values for JSON."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np


def summary_text(model: Any) -> str:
    """Text with the verdict, the weight of each kind of candidate, the five largest candidates and the regions."""
    order = np.argsort(-model.weights_)[:5]
    leading = [f"  {model.weights_[s]:.2f}  {model.candidates_[s]}" for s in order]
    kinds = ", ".join(f"{kind} {weight:.2f}" for kind, weight in model.verdict_.weights.items())
    return "\n".join(
        [
            str(model.verdict_),
            f"weight of each kind: {kinds}",
            "leading candidates:",
            *leading,
            "",
            str(model.region_table()),
        ]
    )


def plain_facts(model: Any) -> dict[str, Any]:
    """The verdict, the candidates, the regions and the held-out errors, ready for JSON."""
    regions = model.region_table()
    facts: dict[str, Any] = plain_values(
        {
            "verdict": {**asdict(model.verdict_), "gain": model.verdict_.gain._asdict()},
            "experts": model.get_feature_names_out().tolist(),
            "candidates": [
                {"candidate": str(c), "weight": w, "rmse": s}
                for c, w, s in zip(model.candidates_, model.weights_, model.sigma_, strict=True)
            ],
            "regions": [
                {key: value._asdict() if hasattr(value, "_asdict") else value for key, value in asdict(row).items()}
                for row in regions
            ],
            "fidelity": regions.fidelity,
            "held_out_errors": [stage.error for stage in model.history_],
        }
    )
    return facts


def plain_values(value: Any) -> Any:
    """Mappings, lists and numbers that JSON can hold: tuples as lists, None for a number that is not finite.

    >>> plain_values({"a": (np.float64(1.0), np.inf)})
    {'a': [1.0, None]}
    """
    if isinstance(value, Mapping):
        return {str(key): plain_values(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain_values(one) for one in value]
    if isinstance(value, float | np.floating):
        return float(value) if np.isfinite(value) else None
    return value.item() if isinstance(value, np.generic) else value
