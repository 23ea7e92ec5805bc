"""Tables for the terminal and figures for files: fits, the demonstration, geometry and the paper's simulations."""
