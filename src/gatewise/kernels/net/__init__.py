"""Compiled sweeps over finite sets of candidate gates: product nets and lists of parameters."""
