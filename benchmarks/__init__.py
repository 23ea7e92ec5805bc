"""Benchmarks: each measures a ratio to a named rival or reference in one run, and writes JSON."""
