"""Vectors of eight numbers, tiles of candidates, exponentials and threads: what the compiled loops are made of."""
