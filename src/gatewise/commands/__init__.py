"""Groups of commands, one file each; `gatewise.cli` puts them together."""
