"""The example of a gate of one's own runs, and finds the ring."""

import numpy as np

from examples.own_gate import in_a_net, in_the_list, main, RingGate, sample
from gatewise.gates import GATES


def test_the_ring_is_found_by_the_net_and_by_the_list(tmp_path, capsys):
    assert GATES["ring"] is RingGate
    frame = sample(400, np.random.default_rng(1))
    assert in_a_net(frame) > 0.95
    model = in_the_list().fit(frame.drop(columns="level"), frame["level"])
    assert model.verdict_.gates
    assert model.verdict_.name == "ring"


def test_the_page_names_the_gate(tmp_path, capsys):
    main(tmp_path)
    assert "MoERegressor: gate: ring" in capsys.readouterr().out
    assert "ring gate" in (tmp_path / "own_gate.html").read_text()
