"""Old paths answer with the new ones, and every new one exists."""

from importlib import import_module

import pytest

import gatewise.gates
from gatewise.moved import MODULES, PACKAGES


@pytest.mark.parametrize("old", [*PACKAGES, "experiments.designs", "report.page", "routing.features"])
def test_an_old_package_names_the_new_one(old):
    with pytest.raises(ModuleNotFoundError, match=f"gatewise.{old.partition('.')[0]} has moved: it is now gatewise."):
        import_module(f"gatewise.{old}")


def test_every_old_module_names_one_that_is_there():
    for old, new in MODULES.items():
        if not new.startswith("gatewise.nn"):
            assert import_module(new)
        with pytest.raises(ModuleNotFoundError, match=r"has moved: it is now gatewise."):
            import_module(f"gatewise.{old}")


def test_other_names_are_not_found_as_ever():
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'gatewise.nothing'"):
        import_module("gatewise.nothing")
    with pytest.raises(AttributeError, match=r"is now gatewise.gates.GATES"):
        _ = gatewise.gates.FAMILIES
