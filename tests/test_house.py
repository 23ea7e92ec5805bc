"""One meaning a name and one place a concept, as `make house` prints them."""

import pytest

from tools import house, mutants


@pytest.mark.parametrize("check", house.CHECKS, ids=lambda check: check.__name__)
def test_nothing_is_there_twice(check):
    assert check() == []


def test_every_mutant_breaks_a_line_that_stands_once():
    moved = [one.what for one in mutants.read_list() if (mutants.ROOT / one.file).read_text().count(one.line) != 1]
    assert moved == []
