"""What would be read from a table: every column with its kind, its gaps, some values and its role in a fit."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from gatewise.app.models.table_files import ReadTable
from gatewise.app.models.tables import check_columns, column_kind, column_roles, learnable
from gatewise.app.models.tasks import find_task

EXAMPLES = 3


@dataclass(frozen=True)
class ColumnView:
    """A column as it would be read: its kind, its gaps, the number of different values, examples, and its role."""

    name: str
    kind: str
    missing: int
    different: int
    examples: tuple[str, ...]
    role: str


@dataclass(frozen=True)
class TableView:
    """What would be read from a table."""

    n_rows: int
    columns: tuple[ColumnView, ...]
    notes: tuple[str, ...]

    def record(self) -> dict[str, Any]:
        """The view as plain values."""
        return asdict(self)


def look_at(
    table: ReadTable,
    target: str | None = None,
    drop: Iterable[str] = (),
    key: str | None = None,
    keep: Iterable[str] = (),
) -> TableView:
    """What a fit would make of a table; a target that cannot be learned is an error, as it would be in a fit."""
    frame, dropped = table.frame, list(drop)
    roles = dict.fromkeys(dropped, "left out")
    if key is not None:
        roles[key] = "key"
    told: list[str] = []
    if target is not None:
        if target in roles:
            raise ValueError(f"{target!r} is the target, and cannot be {roles[target]}, too")
        task, guess = find_task(frame, target)
        told = [*learnable(frame, target, classes=task == "classification")[2], *([guess] if guess else [])]
        roles[target] = "target"
    check_columns(frame, roles, "the columns named")
    columns, notes = column_roles(frame.drop(columns=list(roles)), keep)
    notes += told
    used = {column.name for column in columns}
    views = []
    for name in frame.columns:
        values = frame[name]
        column, _ = column_kind(values, name, frame.attrs)
        seen = values.dropna()
        examples = tuple(str(value) for value in seen.unique()[:EXAMPLES])
        role = roles.get(name, "input" if name in used else "set aside")
        kind = f"{column.kind}, {column.form}" if column.form else column.kind
        views.append(ColumnView(name, kind, int(values.isna().sum()), int(seen.nunique()), examples, role))
    return TableView(len(frame), tuple(views), tuple(notes))
