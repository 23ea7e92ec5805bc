"""The table that ``gatewise look`` prints."""

from rich.console import Group
from rich.table import Table
from rich.text import Text

from gatewise.app.models.looking import TableView
from gatewise.app.terminal import plain


def look_table(view: TableView, name: str) -> Group:
    """Every column of a file as it would be read, and the notes below."""
    table = Table(title=Text(f"{name}: {view.n_rows:,} rows, {len(view.columns)} columns"), title_justify="left")
    for head in ("column", "read as", "missing", "different", "such as", "role"):
        table.add_column(head, justify="right" if head in {"missing", "different"} else "left")
    for one in view.columns:
        examples = ", ".join(text if len(text) <= 18 else f"{text[:17]}…" for text in one.examples)
        cells = (one.name, one.kind, f"{one.missing:,}", f"{one.different:,}", examples, one.role)
        table.add_row(*(Text(plain(cell)) for cell in cells))
    return Group(table, *(Text(plain(note)) for note in view.notes))
