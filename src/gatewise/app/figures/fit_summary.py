"""The table of scores that a fit prints."""

from rich.table import Table
from rich.text import Text

from gatewise.app.models.fitting import Trial
from gatewise.app.numbers import percent, short_number
from gatewise.app.terminal import plain


def score_table(trial: Trial, target: str) -> Table:
    """The errors of a trial, least in bold; "best single" is the expert that was chosen without the scored rows."""
    table = Table(
        title=Text(plain(f"Error of {target} on {trial.n_test} rows held back")),
        caption=f"fitted to the other {trial.n_train}; saved: the part of the mean squared error that Gatewise saves,"
        " 95 % interval",
    )
    table.add_column("method")
    table.add_column("RMSE", justify="right")
    table.add_column("saved on these rows", justify="right")
    best = min(one.rmse for one in trial.scores)
    for one in trial.scores:
        chosen = " (best single)" if one.method == f"{trial.best_single} alone" else ""
        gain = "" if one.gain is None else percent(one.gain)
        table.add_row(
            Text(plain(one.method + chosen)), short_number(one.rmse), gain, style="bold" if one.rmse == best else None
        )
    return table
