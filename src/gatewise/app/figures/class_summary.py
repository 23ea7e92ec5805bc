"""The table of scores that a fit to classes prints."""

from rich.table import Table
from rich.text import Text

from gatewise.app.models.fitting import Trial
from gatewise.app.terminal import plain


def class_score_table(trial: Trial, target: str) -> Table:
    """The scores of a trial, the least log loss in bold."""
    table = Table(
        title=Text(plain(f"Probabilities of {target} on {trial.n_test} rows held back")),
        caption=f"fitted to the other {trial.n_train}; saved: nats a row that Gatewise saves, 95 % interval",
    )
    table.add_column("method", overflow="fold")
    for name in ("log loss", "Brier", "accuracy", "AUC", "calib. error"):
        table.add_column(name, justify="right")
    table.add_column("saved", justify="right", no_wrap=True)
    best = min(one.scores.log_loss for one in trial.scores)
    for one in trial.scores:
        chosen = " (best single)" if one.method == f"{trial.best_single} alone" else ""
        s, g = one.scores, one.gain
        cells = [
            f"{s.log_loss:.4f}",
            f"{s.brier:.3f}",
            f"{s.accuracy:.1%}",
            f"{s.auc:.3f}",
            f"{s.calibration_error:.3f}",
        ]
        cells.append("" if g is None else f"{g.value:+.3f}\n{g.low:+.3f} to {g.high:+.3f}")
        table.add_row(Text(plain(one.method + chosen)), *cells, style="bold" if s.log_loss == best else None)
    return table
