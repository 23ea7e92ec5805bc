"""What a person sees and touches: the commands, and what they are made of.

``model_commands`` and ``reproduce_commands`` parse and print, with ``terminal`` and ``numbers``. The work is in three
rooms, each of which imports only from those after it: ``page`` (one HTML file that explains a fitted model),
``figures`` (tables for the terminal and figures for files) and ``models`` (from a data file to a fitted, saved and
loaded model).
"""
