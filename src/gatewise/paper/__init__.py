"""The paper's designs, and what is run on them."""

from gatewise.paper.designs import Design, DESIGNS

__all__ = ["DESIGNS", "Design"]
