"""What a fit says on the terminal."""

from rich.table import Table
from rich.text import Text

from gatewise.app.fitting import Trial
from gatewise.app.numbers import short_number
from gatewise.geometry import Interval


def score_table(trial: Trial, target: str) -> Table:
    """The errors on the rows that were held back; the best single expert is the one that the fit would have taken."""
    table = Table(
        title=Text(f"Error of {target} on {trial.n_test} rows held back"),
        caption=f"fitted to the other {trial.n_train}; gain: the share of the mean squared error that Gatewise saves,"
        " 95 % interval",
    )
    table.add_column("method")
    table.add_column("RMSE", justify="right")
    table.add_column("gain", justify="right")
    best = min(one.rmse for one in trial.scores)
    for one in trial.scores:
        chosen = " (best single)" if one.method == f"{trial.best_single} alone" else ""
        gain = "" if one.gain is None else percent(one.gain)
        table.add_row(
            Text(one.method + chosen), short_number(one.rmse), gain, style="bold" if one.rmse == best else None
        )
    return table


def percent(gain: Interval) -> str:
    """A share and its interval in percent.

    >>> percent(Interval(0.1, -0.02, 0.22))
    '+10.0 % (-2.0 to +22.0)'
    """
    value, low, high = (f"{100 * number:+.1f}" for number in gain)
    return f"{value} % ({low} to {high})"
