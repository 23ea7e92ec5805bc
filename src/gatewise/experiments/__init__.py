"""The paper's designs, and what is run on them."""

from gatewise.experiments.designs import Design, DESIGNS

__all__ = ["DESIGNS", "Design"]
