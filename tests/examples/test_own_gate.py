"""The example of a gate of one's own runs, and finds the ring."""

import numpy as np
import pytest

from gatewise.gates import GATES


@pytest.fixture
def own_gate():
    """The example, whose gate is registered for one test and no longer."""
    from examples import own_gate

    GATES.setdefault("ring", own_gate.RingGate)
    yield own_gate
    del GATES["ring"]


def test_the_ring_is_found_by_the_net_and_by_the_list(own_gate):
    frame = own_gate.sample(400, np.random.default_rng(1))
    assert own_gate.in_a_net(frame) > 0.95
    model = own_gate.in_the_list().fit(frame.drop(columns="level"), frame["level"])
    assert model.verdict_.gates
    assert model.verdict_.name == "ring"


@pytest.mark.slow
def test_the_page_names_the_gate(own_gate, tmp_path, capsys):
    own_gate.main(tmp_path)
    assert "MoERegressor: gating pays" in capsys.readouterr().out
    assert "ring gate" in (tmp_path / "own_gate.html").read_text()
