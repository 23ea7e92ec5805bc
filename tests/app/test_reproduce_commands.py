"""What ``gatewise reproduce`` and ``verify`` write is known by keys that their records have."""

from dataclasses import fields

import pytest

pytest.importorskip("typer")

from gatewise.app import demo_command, reproduce_commands, verify_command
from gatewise.paper import (
    demo,
    gate_choice,
    kernel_plan_choice,
    region_maps,
    scale_recovery,
    shared_figure,
    two_stage,
)
from gatewise.paper.table1 import Table1Row
from gatewise.paper.verify.check import VerifyRow

RECORDS = {
    "table1": Table1Row,
    "regions": region_maps.Panel,
    "shared": shared_figure.FigureRow,
    "two-stage": two_stage.StageRow,
    "scales": scale_recovery.RecoveryRow,
    "selection": gate_choice.SelectionRow,
    "plan": kernel_plan_choice.KernelPlanRow,
}


def test_the_keys_that_a_file_is_known_by_are_those_of_the_records():
    keys = {**reproduce_commands.KEYS, "verify": verify_command.KEYS, "demo": demo_command.ROUTERS}
    for name, record in {**RECORDS, "verify": VerifyRow, "demo": demo.DemoRow}.items():
        assert set(keys[name]) - {"claim"} <= {field.name for field in fields(record)}, name


def test_the_demonstration_knows_its_table():
    pytest.importorskip("pandas")
    from gatewise.app.models.demo_data import make_table

    assert set(demo_command.TABLE) <= set(make_table(5).columns)
