"""A benchmark's command as a user runs it."""

import sys

import pytest


@pytest.fixture
def benchmark_command(monkeypatch, tmp_path, capfd):
    """Run ``python -m benchmarks.NAME ARGS`` in an empty folder: (exit code, standard output, standard error)."""
    pytest.importorskip("typer")
    from benchmarks.command import start

    monkeypatch.chdir(tmp_path)

    def run(main, *args):
        monkeypatch.setattr(sys, "argv", ["benchmark", *map(str, args)])
        with pytest.raises(SystemExit) as left:
            start(main)
        return left.value.code, *capfd.readouterr()

    return run
