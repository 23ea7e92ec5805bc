"""The figures of the demonstration in the README: distances to the truth of experts, fixed weights and routers."""

from benchmarks.timing import save
from gatewise.paper.demo import run_demo


def main() -> None:
    demo = run_demo()
    rmse = {row.method: row.rmse for row in demo.rows}
    save("demo", {"rows": 400, "candidates": demo.n_candidates, "rmse": rmse})


if __name__ == "__main__":
    main()
