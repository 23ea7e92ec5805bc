"""How a benchmark is run from the command line: options by typer, bad input as one line and exit code 2."""

import sys
from collections.abc import Callable
from typing import Any

import typer


def start(command: Callable[..., Any]) -> None:
    """Run a function whose parameters are the options of the command line."""
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(command)
    try:
        app()
    except (ValueError, OSError) as error:
        print(f"benchmarks: {' '.join(str(error).split())}", file=sys.stderr)
        sys.exit(2)
