"""What a person sees and touches: the commands, and what they are made of.

``demo_command``, ``model_commands``, ``verify_command`` and ``reproduce_commands`` (with ``reproduction``) parse and
print, by ``terminal`` and ``numbers``. The work is in three rooms, each of which imports only from those after it:
``page`` (one HTML file that explains a fitted model), ``figures`` (tables for the terminal and figures for files) and
``models`` (from a data file to a fitted, saved and loaded model).
"""

INTERRUPTED = 130  # the exit code after Ctrl-C
STOPPED = "interrupted; every file is as it was before, or complete"
