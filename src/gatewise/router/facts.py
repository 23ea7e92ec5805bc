"""The summary of a fitted `MoERegressor` or `MoEClassifier`: as text, and as plain values for JSON."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from gatewise.router.candidates import log_prior
from gatewise.router.learning import MOST_LEARNED
from gatewise.router.rows_used import rows_of_members, rows_of_trial


def summary_text(model: Any) -> str:
    """Text with the verdict, the weight of each kind of candidate, the five largest candidates and the regions."""
    order = np.argsort(-model.weights_)[:5]
    leading = [f"  {model.weights_[s]:.2f}  {model.candidates_[s]}" for s in order]
    chosen = model.rows_learned_ > MOST_LEARNED
    kinds = ", ".join(f"{kind} {weight:.2f}" for kind, weight in kind_weights(model).items())
    added = rows_added(model)
    return "\n".join(
        [
            str(model.verdict_),
            *verdict_notes(model),
            *([f"so far the fit; {added:,} rows were added to it, with which the weights are:"] if added else []),
            f"weight of each kind: {kinds}",
            "leading candidates:",
            *leading,
            *([f"experts that no candidate uses: {', '.join(model.left_out_)}"] if model.left_out_ else []),
            *([f"the list learned from {model.rows_learned_:,} rows, a random choice"] if chosen else []),
            *_choice_text(model),
            *_rows_text(model),
            *([_scores_text(model.held_out_scores_)] if hasattr(model, "held_out_scores_") else []),
            "",
            str(model.region_table()),
        ]
    )


def verdict_notes(model: Any) -> list[str]:
    """Sentences to read beside the verdict: what its gain is a gain of, and whose predictions ``predict`` gives."""
    notes = beside_constant(model)
    verdict = model.verdict_
    if verdict.headline == "a gate is used":
        notes.append(
            f"the gain compares the whole prediction with {verdict.baseline}; the test asks only whether gates help "
            "beyond weights that are the same for every row, and that is not shown"
        )
    if verdict.gates and verdict.gain.low <= 0.0:
        notes.append(
            f"gates help beyond weights that are the same for every row (p = {verdict.p_value:.2g}); what the whole "
            f"prediction saves over {verdict.baseline} is less certain"
        )
    if model.settings is not None and model.settings.readout == "single":
        notes.append(f"predictions are those of: {model.selected_}; the gain is the aggregate's")
    return notes


def beside_constant(model: Any) -> list[str]:
    """A sentence that says so where held-out predictions are no better than one answer for all rows; else none."""
    gain = getattr(model, "gain_over_constant_", np.nan)  # a model file may be older
    if not gain <= 0.0:
        return []
    if hasattr(model, "classes_"):
        ours = model.held_out_scores_["model"].log_loss
        loss, other = f"{ours:.4g}", f"{ours / (1.0 - gain):.4g}"
        return [f"no better than the class frequencies: held-out log loss {loss}, and theirs {other}"]
    return [f"no better than the mean response: held-out R2 {gain:.2g}"]


def _choice_text(model: Any) -> list[str]:
    """A line that says how many rows chose the experts of the list, where some did."""
    judging = len(np.unique(model.out_of_fold_.rows))
    choosing = model.rows_learned_ - judging
    if not choosing:
        return []
    return [f"{choosing:,} rows chose the experts of the list; weights, gain and losses are of the other {judging:,}"]


def _rows_used(model: Any) -> tuple[dict[str, int], int | None]:
    """The rows of members that were fitted to fewer than all, and those that the list was tried on, if it was."""
    n = model._router.n_entries or len(model.out_of_fold_.rows)
    return rows_of_members(model._router.fitted, n), rows_of_trial(len(model._router.view.distinct), n)


def _rows_text(model: Any) -> list[str]:
    """What `_rows_used` finds, in words."""
    fewer, tried = _rows_used(model)
    told = []
    if fewer:
        listed = ", ".join(f"{name} {rows:,}" for name, rows in fewer.items())
        told.append(f"fitted to fewer rows, so that time grows slower than rows: {listed}")
    if tried is not None:
        told.append(
            f"a trial on {tried:,} rows left members out that were far behind; {len(model.candidates_)} stayed"
        )
    return told


def rows_added(model: Any) -> int:
    """How many rows were added by ``partial_fit`` since the fit."""
    return len(model.online_probabilities_ if hasattr(model, "classes_") else model.online_predictions_)


def kind_weights(model: Any) -> dict[str, float]:
    """The shares of the candidates in a prediction by their kind, as they are now."""
    totals: dict[str, float] = {}
    for c, weight in zip(model.candidates_, model.weights_, strict=True):
        totals[c.kind] = totals.get(c.kind, 0.0) + float(weight)
    return totals


def _scores_text(scores: Mapping[str, Any]) -> str:
    """The held-out scores of probabilities as a table, a line for each answer."""
    width = max(len(name) for name in scores)
    lines = [f"{'held out':<{width}}  log loss  Brier  accuracy    AUC  calibration error"]
    for name, one in scores.items():
        values = f"{one.log_loss:>8.4f}  {one.brier:>5.3f}  {one.accuracy:>8.1%}  {one.auc:>5.3f}"
        lines.append(f"{name:<{width}}  {values}  {one.calibration_error:>17.3f}")
    return "\n".join(["", *lines])


def plain_facts(model: Any) -> dict[str, Any]:
    """The verdict, the candidates, the regions and the held-out errors, ready for JSON.

    ``gain_over_constant`` is the part of the held-out error of one answer for all rows that predictions save.
    The price of a candidate is log(1 / prior). ``rows_of_members`` are the rows of members that were fitted to fewer
    than the list learned from, ``rows_tried`` those that the list was tried on to leave members out.
    """
    regions = model.region_table()
    classes = hasattr(model, "classes_")
    told = ("log_loss", "calibration_error") if classes else ("rmse",)
    errors = [model.log_loss_, model.calibration_error_] if classes else [model.sigma_]
    prices = -log_prior(model.candidates_)
    fewer, tried = _rows_used(model)
    facts: dict[str, Any] = plain_values(
        {
            "verdict": {**asdict(model.verdict_), "gain": model.verdict_.gain._asdict()},
            "experts": model.get_feature_names_out().tolist(),
            "left_out": model.left_out_,
            "rows_learned": model.rows_learned_,
            "rows_of_members": fewer,
            "rows_tried": tried,
            "rows_added": rows_added(model),
            "weights": kind_weights(model),
            "candidates": [
                {"candidate": str(c), "weight": w, "price": price, **dict(zip(told, numbers, strict=True))}
                for c, w, price, *numbers in zip(model.candidates_, model.weights_, prices, *errors, strict=True)
            ],
            "regions": [
                {
                    **{key: one._asdict() if hasattr(one, "_asdict") else one for key, one in asdict(row).items()},
                    "wins": row.wins if row.share else None,
                }
                for row in regions
            ],
            "fidelity": regions.fidelity,
            "held_out_errors": [stage.error for stage in model.history_],
            "gain_over_constant": getattr(model, "gain_over_constant_", np.nan),
        }
    )
    if classes:
        facts["classes"] = plain_values(model.classes_.tolist())
        facts["held_out_scores"] = plain_values({name: asdict(one) for name, one in model.held_out_scores_.items()})
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
