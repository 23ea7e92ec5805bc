"""``python -m benchmarks.specialization``: level and power of the test of specialization, as they are filed."""

from benchmarks.specialists import level_and_power
from benchmarks.timing import save


def main() -> None:
    save("specialization", level_and_power(level_runs=1000, power_runs=200))


if __name__ == "__main__":
    main()
