"""Level and power of the test of specialization: eight experts, none or three of them special."""

from typing import Any

from benchmarks.specialists import false_alarms, NULLS, power
from benchmarks.timing import save

LEVEL_RUNS, POWER_RUNS = 1000, 200


def run() -> dict[str, Any]:
    rows = []
    for n, effect in ((800, 0.8), (1200, 0.8), (2400, 0.8), (1200, 0.5), (1200, 1.2)):
        found, false = power(POWER_RUNS, n, effect)
        rows.append({"n": n, "effect": effect, "found": found, "false_discovery_rate": false})
    level = {}
    for design in NULLS:
        any_alarm, any_excess = false_alarms(design, LEVEL_RUNS)
        level[design.__name__] = {"any_alarm": any_alarm, "any_alarm_excess_only": any_excess}
    return {"level_runs": LEVEL_RUNS, "power_runs": POWER_RUNS, "level": level, "power": rows}


def main() -> None:
    save("specialization", run())


if __name__ == "__main__":
    main()
