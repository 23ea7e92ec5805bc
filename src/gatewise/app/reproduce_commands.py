"""``gatewise reproduce ...``: every simulation of the paper, beside its published figures.

Each command has a function that runs the experiment, shows it and returns what ``--json`` writes; ``all`` calls four
of them in turn.
"""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from gatewise.app.terminal import console, Jobs, Json, Reps, Seed, show_path, show_progress, write_json
from gatewise.backends import Backend, dask_cluster, processes
from gatewise.paper.runner import Runner
from gatewise.paper.store import Store

app = typer.Typer(help="The paper's simulations.", no_args_is_help=True)

Out = Annotated[Path, typer.Option(help="Folder for figures and for finished replications: a run goes on from them.")]
BackendName = Annotated[str, typer.Option("--backend", help="joblib: this machine; dask: a cluster.")]
Scheduler = Annotated[str | None, typer.Option(help="Address of the dask scheduler, as tcp://host:8786.")]
OUT = Path("out")


@app.command(epilog="Example: gatewise reproduce table1 --reps 10 --json table1.json")
def table1(
    reps: Reps = 100,
    seed: Seed = 0,
    jobs: Jobs = -1,
    json_file: Json = None,
    out: Out = OUT,
    backend: BackendName = "joblib",
    scheduler: Scheduler = None,
) -> None:
    """Errors of three gates on three designs beside the published ones (tab:mc-summary)."""
    write_json(json_file, show_table1(reps, seed, _runner(out, jobs, backend, scheduler), out))


@app.command(epilog="Example: gatewise reproduce regions --out figures")
def regions(
    reps: Annotated[int, typer.Option(min=1, help="Samples that agreement is averaged over.")] = 1,
    seed: Seed = 0,
    jobs: Jobs = -1,
    json_file: Json = None,
    out: Out = OUT,
    backend: BackendName = "joblib",
    scheduler: Scheduler = None,
) -> None:
    """True and estimated regions of three gates on three designs (fig:all-gating-results)."""
    write_json(json_file, show_regions(reps, seed, _runner(out, jobs, backend, scheduler), out))


@app.command(epilog="Example: gatewise reproduce shared --reps 200")
def shared(
    reps: Reps = 200,
    seed: Seed = 0,
    jobs: Jobs = -1,
    json_file: Json = None,
    out: Out = OUT,
    backend: BackendName = "joblib",
    scheduler: Scheduler = None,
    coordinates: Annotated[
        str, typer.Option(help="Local coordinates: fixed, or moving with the threshold.")
    ] = "fixed",
) -> None:
    """Prediction error with and without a shared expert, the threshold unknown (fig:fourier-simulation)."""
    runner = _runner(out, jobs, backend, scheduler)
    write_json(json_file, show_shared(reps, seed, runner, out, coordinates))


@app.command(epilog="Example: gatewise reproduce rates --reps 100 --jobs 2")
def rates(
    reps: Reps = 100,
    seed: Seed = 0,
    jobs: Jobs = -1,
    json_file: Json = None,
    out: Out = OUT,
    backend: BackendName = "joblib",
    scheduler: Scheduler = None,
) -> None:
    """Risk profiles of the Fourier example for n from 200 to 51,200, and their slopes (section 6)."""
    write_json(json_file, show_rates(reps, seed, _runner(out, jobs, backend, scheduler), out))


@app.command("all", epilog="Example: gatewise reproduce all --out reproduction")
def everything(
    reps: Annotated[
        int | None,
        typer.Option(min=2, help="Samples drawn at every size; each experiment's own number if not given."),
    ] = None,
    seed: Seed = 0,
    jobs: Jobs = -1,
    json_file: Json = None,
    out: Out = OUT,
    backend: BackendName = "joblib",
    scheduler: Scheduler = None,
) -> None:
    """Run table1, regions, shared and rates, in this order, into one folder; JSON for each lies there, too."""
    runner = _runner(out, jobs, backend, scheduler)
    shows: dict[str, tuple[Callable[..., Any], int]] = {
        "table1": (show_table1, 100),
        "regions": (show_regions, 1),
        "shared": (show_shared, 200),
        "rates": (show_rates, 100),
    }
    found = {}
    for name, (show, usual) in shows.items():
        console.rule(name)
        found[name] = show(reps or usual, seed, runner, out)
        write_json(out / f"{name}.json", found[name])
    write_json(json_file, found)


@app.command(epilog="Example: gatewise reproduce settings --seed 777")
def settings(
    reps: Reps = 100,
    seed: Seed = 777,
    jobs: Jobs = -1,
    json_file: Json = None,
    out: Out = OUT,
    backend: BackendName = "joblib",
    scheduler: Scheduler = None,
) -> None:
    """How well each reading of what the paper leaves open matches table1, on seeds that table1 does not use."""
    from gatewise.app.figures.table1_table import settings_table  # noqa: PLC0415
    from gatewise.paper import table1 as experiment  # noqa: PLC0415 - `gatewise --help` need not wait for it

    runner = _runner(out, jobs, backend, scheduler)
    rows = experiment.run(experiment.every_setting(), reps, seed, runner)
    console.print(settings_table(rows))
    write_json(json_file, [asdict(row) for row in rows])


@app.command("two-stage", epilog="Example: gatewise reproduce two-stage")
def two_stage(
    reps: Reps = 100,
    seed: Seed = 0,
    jobs: Jobs = -1,
    json_file: Json = None,
    out: Out = OUT,
    backend: BackendName = "joblib",
    scheduler: Scheduler = None,
) -> None:
    """The bias of the plain two-stage rule, and the residualization that mends it."""
    from gatewise.app.figures import shared_figures as report  # noqa: PLC0415
    from gatewise.paper import two_stage as experiment  # noqa: PLC0415

    rows = experiment.run(reps=reps, seed=seed, runner=_runner(out, jobs, backend, scheduler))
    console.print(report.two_stage_table(rows))
    write_json(json_file, [asdict(row) for row in rows])
    show_path(report.two_stage_figure(rows, out / "two-stage.png"))


@app.command(epilog="Example: gatewise reproduce scales --reps 100")
def scales(
    reps: Reps = 100,
    seed: Seed = 0,
    jobs: Jobs = -1,
    json_file: Json = None,
    out: Out = OUT,
    backend: BackendName = "joblib",
    scheduler: Scheduler = None,
) -> None:
    """How often the scale of every component of a tree of regions is recovered."""
    from gatewise.app.figures import shared_figures as report  # noqa: PLC0415
    from gatewise.paper import scale_recovery as experiment  # noqa: PLC0415

    rows = experiment.run(reps=reps, seed=seed, runner=_runner(out, jobs, backend, scheduler))
    console.print(report.scales_table(rows))
    write_json(json_file, [asdict(row) for row in rows])


@app.command(epilog="Example: gatewise reproduce selection --reps 100 --jobs 2")
def selection(
    reps: Reps = 100,
    seed: Seed = 0,
    jobs: Jobs = -1,
    json_file: Json = None,
    out: Out = OUT,
    backend: BackendName = "joblib",
    scheduler: Scheduler = None,
    n: Annotated[list[int] | None, typer.Option(min=6, help="Sample sizes; the paper's unless given.")] = None,
    burn_in: Annotated[float | None, typer.Option(help="Share of the rows that candidates are fitted on.")] = None,
    orders: Annotated[int, typer.Option(min=1, help="Random orders that the weights are averaged over.")] = 1,
    radius: Annotated[float | None, typer.Option(help="Box of the softmax gates; the paper's unless given.")] = None,
) -> None:
    """The choice of the gate class on the three designs: risks, and how often each is selected (alg:selection)."""
    from gatewise.app.figures.selection_table import selection_tables  # noqa: PLC0415
    from gatewise.paper import gate_choice as experiment  # noqa: PLC0415

    setting = experiment.SelectionSetting(burn_in=burn_in, n_orders=orders, radius=radius)
    rows = experiment.run(n or (), reps, seed, setting, _runner(out, jobs, backend, scheduler))
    for table in selection_tables(rows):
        console.print(table)
    write_json(json_file, [asdict(row) for row in rows])


def show_table1(reps: int, seed: int, runner: Runner, out: Path) -> list[dict[str, Any]]:
    """Tables and verdict; records of the stated settings. Those of the common one go into the folder."""
    from gatewise.app.figures.table1_table import table1 as design_table  # noqa: PLC0415
    from gatewise.app.figures.table1_table import verdict_lines  # noqa: PLC0415
    from gatewise.paper import table1 as experiment  # noqa: PLC0415

    rows = experiment.run(experiment.stated_and_common(), reps, seed, runner)
    for design in experiment.STATED:
        console.print(design_table(rows, design))
    for line in verdict_lines(rows):
        console.print(line)
    write_json(out / "table1-common.json", [asdict(row) for row in experiment.select(rows, experiment.COMMON)])
    return [asdict(row) for row in experiment.select(rows, experiment.STATED)]


def show_regions(reps: int, seed: int, runner: Runner, out: Path) -> list[dict[str, Any]]:
    """The nine panels and how much of the square each gets right."""
    from gatewise.app.figures import region_figure as report  # noqa: PLC0415
    from gatewise.paper import region_maps as experiment  # noqa: PLC0415

    panels = experiment.run(reps, seed, runner)
    console.print(report.regions_table(panels))
    show_path(report.regions_figure(panels, out / "regions.png"))
    return [panel.record() for panel in panels]


def show_shared(reps: int, seed: int, runner: Runner, out: Path, coordinates: str = "fixed") -> list[dict[str, Any]]:
    """The two-panel figure, its table, and where the caption's claim holds."""
    from gatewise.app.figures import shared_figures as report  # noqa: PLC0415
    from gatewise.paper import shared_figure as experiment  # noqa: PLC0415

    rows = experiment.run(reps=reps, seed=seed, coordinates=coordinates, runner=runner)
    console.print(report.figure_table(rows))
    for line in report.claim_lines(rows):
        console.print(line)
    show_path(report.shared_figure(rows, out / "shared.png"))
    return [{**asdict(row), "claim": row.claim} for row in rows]


def show_rates(reps: int, seed: int, runner: Runner, out: Path) -> dict[str, Any]:
    """Risks, slopes and their figure."""
    from gatewise.app.figures import shared_figures as report  # noqa: PLC0415
    from gatewise.paper import rates as experiment  # noqa: PLC0415

    rows = experiment.run(reps=reps, seed=seed, runner=runner)
    slopes = experiment.slopes(rows)
    for design in report.TITLES:
        console.print(report.rates_table(rows, design))
    console.print(report.slopes_table(slopes))
    show_path(report.rates_figure(rows, out / "rates.png"))
    return {"risks": [asdict(row) for row in rows], "slopes": [asdict(row) for row in slopes]}


def _runner(out: Path, jobs: int, backend: str, scheduler: str | None) -> Runner:
    return Runner(_backend(jobs, backend, scheduler), Store(out / "replications.sqlite"), show_progress)


def _backend(jobs: int, name: str, scheduler: str | None) -> Backend:
    if name == "joblib":
        return processes(jobs)
    if name != "dask":
        raise ValueError(f"backend must be 'joblib' or 'dask', not {name!r}")
    if scheduler is None:
        raise ValueError("backend 'dask' needs --scheduler, the address of its scheduler")
    return dask_cluster(scheduler)
