"""The tables of the choice among gate classes."""

from collections.abc import Sequence

from rich.table import Table

from gatewise.paper.gate_choice import CLASSES, SelectionRow


def selection_tables(rows: Sequence[SelectionRow]) -> tuple[Table, Table]:
    """Two tables: the mean risk of every class of gates, and the risk of the selected one over that of the best."""
    risks = Table(title=f"Mean integrated squared error, {rows[0].reps} samples")
    loss = Table(title="Risk of the selected one over that of the best (standard error)")
    for table, columns in (
        (risks, (*CLASSES, "aggregate", "selected")),
        (loss, ("best class", "best of sample", "times selected:\n" + " /\n".join(CLASSES))),
    ):
        table.add_column("design")
        for name in ("n", *columns):
            table.add_column(name, justify="right")
    for row in rows:
        figures = (*(row.risks[name] for name in CLASSES), row.aggregate, row.selected)
        risks.add_row(row.design, f"{row.n:,}", *(f"{figure:.4f}" for figure in figures))
        loss.add_row(
            row.design,
            f"{row.n:,}",
            f"{row.ratio:.3f} ({row.ratio_se:.3f})",
            f"{row.oracle_ratio:.3f} ({row.oracle_se:.3f})",
            " / ".join(str(row.picked[name]) for name in CLASSES),
        )
    return risks, loss
