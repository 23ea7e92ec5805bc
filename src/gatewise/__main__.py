"""``python -m gatewise``: the command line."""

from gatewise.cli import main

main()
