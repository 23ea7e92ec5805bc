"""Which model for which query: from a table of queries, scores and costs to a router with a price."""
