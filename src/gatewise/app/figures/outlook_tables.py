"""The tables of the outlook's experiments."""

from collections.abc import Sequence

from rich.box import SIMPLE
from rich.table import Table

from gatewise.paper.kernel_plan_choice import COUNTS, KernelPlanRow, MESHES
from gatewise.paper.outlook.adaptive_k import ActivationRow
from gatewise.paper.outlook.coadaptation_rounds import CoadaptationRow
from gatewise.paper.outlook.exploration_budget import ExplorationRow
from gatewise.paper.outlook.granularity_budget import DIVISIONS, GranularityRow
from gatewise.paper.outlook.load_balance import LoadRow
from gatewise.paper.outlook.ratios import Ratio


def activation_table(rows: Sequence[ActivationRow]) -> Table:
    """Errors of the adaptive active set and of Top-K at an equal mean number of experts asked."""
    table = _table(
        f"Input-adaptive K, {rows[0].reps} samples: squared distance to the truth",
        ("design", "asked", "adaptive", "Top-K", "ratio (bounds)", "chosen"),
    )
    for row in rows:
        picked = ", ".join(f"{name} {count}" for name, count in row.picked.items())
        table.add_row(
            row.design, f"{row.asked:.2f}", f"{row.chosen:.3f}", f"{row.top_k:.3f}", _ratio(row.ratio), picked
        )
    return table


def exploration_table(rows: Sequence[ExplorationRow]) -> Table:
    """Region errors of exploration by margin and at random."""
    table = _table(
        f"Boundary-aware exploration, {rows[0].reps} samples: fraction of points with the wrong best expert",
        ("design", "evaluations", "by margin", "at random", "ratio (bounds)", "half of it by margin, ratio (bounds)"),
    )
    for row in rows:
        half = "" if row.half is None else _ratio(row.half)
        table.add_row(
            row.design, str(row.budget), f"{row.by_margin:.4f}", f"{row.uniform:.4f}", _ratio(row.ratio), half
        )
    return table


def load_table(rows: Sequence[LoadRow]) -> Table:
    """What balance costs, and how well the load is met."""
    table = _table(
        f"Load constraints, {rows[0].reps} samples: squared distance to the truth, and gaps to the load",
        ("design", "gate", "balance", "error", "price (bounds)", "gap, fit", "gap, fresh", "z, fresh"),
    )
    for row in rows:
        table.add_row(
            row.design,
            row.gate,
            f"{row.balance:.2f}",
            f"{row.error:.3f}",
            _ratio(row.price),
            f"{row.fit_gap:.4f}",
            f"{row.fresh_gap:.4f}",
            f"{row.fresh_z:.2f}",
        )
    return table


def granularity_table(rows: Sequence[GranularityRow]) -> Table:
    """Errors by division of a budget of parameters, and of the data's choice."""
    names = [f"{division.n_experts} x {division.size}" for division in DIVISIONS]
    table = _table(
        f"Granularity, {rows[0].reps} samples: squared distance to the truth, 1000 times",
        ("jumps", *names, "chosen", "chosen / best (bounds)", "finest / coarsest (bounds)"),
    )
    for row in rows:
        errors = [f"{1000 * error:.2f}" for error in row.errors]
        table.add_row(str(row.jumps), *errors, f"{1000 * row.chosen:.2f}", _ratio(row.ratio), _ratio(row.fine))
    return table


def coadaptation_table(rows: Sequence[CoadaptationRow]) -> Table:
    """How often experts are called specialists, round by round."""
    table = _table(
        f"Co-adaptation, {rows[0].reps} samples: how often experts are called specialists",
        ("truth", "round", "some expert (bounds)", "all experts", "advantage", "error"),
    )
    for row in rows:
        some = f"{100 * row.some:.0f} % ({100 * row.some_low:.1f}, {100 * row.some_high:.1f})"
        table.add_row(
            row.truth, str(row.round), some, f"{100 * row.all:.0f} %", f"{row.advantage:.3f}", f"{row.error:.4f}"
        )
    return table


def kernel_plan_table(rows: Sequence[KernelPlanRow]) -> Table:
    """Errors over the grid of meshes and numbers of experts, and of the choice from data."""
    names = [f"M {count}, h {mesh:g}" for count in COUNTS for mesh in MESHES]
    table = _table(
        f"Mesh and number of experts, {rows[0].reps} samples: squared distance to the truth",
        ("design", *names, "chosen", "ratio (bounds)"),
    )
    for row in rows:
        errors = [f"{error:.3f}" for line in row.errors for error in line]
        table.add_row(row.design, *errors, f"{row.chosen:.3f}", _ratio(row.ratio))
    return table


def _table(title: str, columns: Sequence[str]) -> Table:
    table = Table(title=title, box=SIMPLE)
    for number, name in enumerate(columns):
        table.add_column(name, justify="left" if number == 0 else "right")
    return table


def _ratio(ratio: Ratio) -> str:
    return f"{ratio.value:.2f} ({ratio.low:.2f}, {ratio.high:.2f})"
