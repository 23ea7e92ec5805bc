"""Aggregation over a continuum of gates: particles that follow the weights."""
