"""Learning a gate from data: aggregation over candidates, and the convex problems among its steps."""
