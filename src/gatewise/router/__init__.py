"""A list of gates learned from data: what they see, how they are fitted, and how the list is aggregated."""
