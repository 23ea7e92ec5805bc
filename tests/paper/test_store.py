"""The store of finished work: what was put comes back, bit by bit, from another connection."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatewise.paper.store import record_key, Store

numbers = st.floats(allow_nan=False)


@given(records=st.dictionaries(st.text(), st.lists(numbers)))
def test_what_was_put_comes_back(records, tmp_path_factory):
    path = tmp_path_factory.mktemp("store") / "runs.sqlite"
    store = Store(path)
    for name, values in records.items():
        store.put(record_key(name=name), {"values": values})
    again = Store(path)
    for name, values in records.items():
        assert again.get(record_key(name=name)) == {"values": values}
    assert again.get(record_key(other=0)) is None


def test_a_record_is_replaced(tmp_path):
    store = Store(tmp_path / "deep" / "runs.sqlite")
    store.put("a", {"x": 1.0})
    store.put("a", {"x": math.pi})
    assert store.get("a") == {"x": math.pi}


def test_a_file_of_another_kind_is_named(tmp_path):
    path = tmp_path / "text.sqlite"
    path.write_text("no database at all, though long enough to be read as the header of one" * 20)
    with pytest.raises(ValueError, match=r"text\.sqlite is not a store"):
        Store(path)
