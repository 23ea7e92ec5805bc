"""Prints the table of hostile cases at the end of a run."""

from tests.hostile.outcomes import TALLY


def pytest_terminal_summary(terminalreporter):
    if not TALLY:
        return
    terminalreporter.section("hostile cases")
    terminalreporter.write_line(f"{'group':<28}{'cases':>7}{'right answer':>14}{'clear error':>13}{'bad':>6}")
    rows = [(name, *tally.values()) for name, tally in sorted(TALLY.items())]
    for name, *counts in [*rows, ("all", *map(sum, zip(*(row[1:] for row in rows), strict=True)))]:
        right, clear, bad = counts
        terminalreporter.write_line(f"{name:<28}{sum(counts):>7}{right:>14}{clear:>13}{bad:>6}")
