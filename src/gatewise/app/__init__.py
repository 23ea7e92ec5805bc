"""What a person sees and touches: the commands, and what they are made of.

``demo_command``, ``model_commands``, ``verify_command`` and ``reproduce_commands`` (with ``reproduction``) parse and
print, by ``terminal`` and ``numbers``. The work is in three rooms, each of which imports only from those after it:
``page`` (one HTML file that explains a fitted model), ``figures`` (tables for the terminal and figures for files) and
``models`` (from a data file to a fitted, saved and loaded model).
"""

import atexit
import gc


def list_no_estimators() -> None:
    """Let skops, which reads model files, not list all estimators of scikit-learn in this process.

    When skops is imported the list imports all of scikit-learn, and PyTorch where it is installed. It only says which
    types skops itself trusts, and files are checked against a list of our own.
    """
    import sklearn.utils  # noqa: PLC0415

    sklearn.utils.all_estimators = lambda *_, **__: []


def end_quickly() -> None:
    """Let the interpreter not look for garbage among the modules when it ends: that takes it a second."""
    atexit.register(gc.freeze)
