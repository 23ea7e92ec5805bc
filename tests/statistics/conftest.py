"""The seed of the draws, in the first lines of a run."""

from tests.statistics.draws import SEED, TIMES


def pytest_report_header():
    return f"statistics: repeat these draws with GATEWISE_SEED={SEED} GATEWISE_RUNS={TIMES}"


def pytest_terminal_summary(terminalreporter):
    if terminalreporter.stats.get("failed"):
        terminalreporter.write_line(f"repeat these draws with GATEWISE_SEED={SEED} GATEWISE_RUNS={TIMES}")
