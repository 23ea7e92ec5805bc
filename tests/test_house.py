"""One meaning a name and one place a concept, as `make house` prints them."""

import pytest

from tools import house


@pytest.mark.parametrize("check", house.CHECKS, ids=lambda check: check.__name__)
def test_nothing_is_there_twice(check):
    assert check() == []
