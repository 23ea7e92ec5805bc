"""The gates that the command line knows by name: those of the registry, and those that installed packages add.

A package adds a gate by an entry point of the group ``gatewise.gates``, whose name is the gate's and whose object is
its class. Its code is imported when the gate is asked for, and not before.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib.metadata import entry_points, EntryPoint
from typing import Any

from gatewise.gates import GATES, register_gate

GROUP = "gatewise.gates"
AUTO = "auto"


def gate_names() -> list[str]:
    """All names that ``--gates`` takes: the registry's first, then those of installed packages, which stay unloaded.

    A family that needs more than the number of experts, such as `FeatureGate` its transform, has no name here.

    >>> "kernel" in gate_names(), "feature" in gate_names()
    (True, False)
    """
    return [*(name for name, family in GATES.items() if family.by_name), *(point.name for point in _added())]


def choose_gates(words: Sequence[str] | None) -> Any:
    """What to pass as ``gates`` to `MoERegressor` for a user's words: each is a name, or several with commas.

    Gates that installed packages add are imported and registered, so that their names mean the same as the others'.

    >>> choose_gates(["linear, kernel", "quadratic"]), choose_gates(None)
    (('linear', 'kernel', 'quadratic'), 'auto')
    """
    names = [name.strip() for word in words or () for name in word.split(",") if name.strip()]
    if not names or names == [AUTO]:
        return AUTO
    for name in names:
        if name not in gate_names():
            raise ValueError(f"gates: {name!r} is none of {', '.join([AUTO, *gate_names()])}")
    for point in _added():
        if point.name in names:
            _register(point)
    return tuple(dict.fromkeys(names))


def register_added_gates() -> None:
    """Import and register every gate that an installed package adds; those that cannot be imported are left out."""
    for point in list(_added()):
        with suppress(ValueError):
            _register(point)


def gate_classes() -> tuple[type, ...]:
    """The classes of all gates that are registered at this moment, and of the features that they learn."""
    return (*GATES.values(), *(family.feature_map for family in GATES.values()))


def _added() -> Iterator[EntryPoint]:
    return (point for point in entry_points(group=GROUP) if point.name not in GATES)


def _register(point: EntryPoint) -> None:
    try:
        register_gate(point.name, point.load())
    except Exception as error:
        raise ValueError(f"gates: {point.name!r} cannot be imported from {point.value}: {error}") from error
