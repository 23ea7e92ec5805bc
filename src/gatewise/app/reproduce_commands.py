"""``gatewise reproduce ...``: every simulation of the paper, beside its published figures.

The commands parse; a function of `gatewise.app.reproduction` runs the simulation, shows it and returns what
``--json`` writes. It is imported when a command runs: matplotlib would make ``gatewise --help`` wait.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TYPE_CHECKING

import typer

from gatewise.app.files import claim, claim_json, has_mark, Output, write_json
from gatewise.app.terminal import console, Jobs, Json, Reps, Seed, show_progress

if TYPE_CHECKING:
    from gatewise.backends import Backend
    from gatewise.paper.runner import Runner

app = typer.Typer(help="The paper's simulations.", no_args_is_help=True)

Out = Annotated[Path, typer.Option(help="Folder for figures and for finished replications: a run goes on from them.")]
BackendName = Annotated[str, typer.Option("--backend", help="joblib: this machine; dask: a cluster.")]
Scheduler = Annotated[str | None, typer.Option(help="Address of the dask scheduler, as tcp://host:8786.")]
OUT = Path("out")
# Keys of the JSON of each command, among others: a file without them is not replaced.
KEYS = {
    "table1": ("design", "gate", "n", "readout", "l1_mean", "setting"),
    "regions": ("design", "gate", "agreement", "shown"),
    "shared": ("design", "n", "shared_mse", "pure_mse", "claim"),
    "rates": ("risks", "slopes"),
    "all": ("table1", "regions", "shared", "rates"),
    "two-stage": ("method", "n", "slope", "mse"),
    "scales": ("component", "scale", "runs", "recovered"),
    "selection": ("design", "n", "risks", "selected"),
    "outlook": ("adaptive_k", "exploration", "load", "granularity", "coadaptation"),
    "plan": ("design", "errors", "chosen", "ratio", "picked"),
}
FIGURES = {name: f"{name}.png" for name in ("regions", "shared", "rates", "two-stage")}


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
    from gatewise.app import reproduction  # noqa: PLC0415

    place = _claimed("table1", json_file, out)
    write_json(place, reproduction.show_table1(reps, seed, _runner(out, jobs, backend, scheduler), out))


@app.command(epilog="Example: gatewise reproduce regions --out figures")
def regions(
    reps: Annotated[int, typer.Option(min=1, help="Samples; a panel shows the median one by l1 error.")] = 100,
    seed: Seed = 0,
    jobs: Jobs = -1,
    json_file: Json = None,
    out: Out = OUT,
    backend: BackendName = "joblib",
    scheduler: Scheduler = None,
) -> None:
    """True and estimated regions of three gates on three designs (fig:all-gating-results)."""
    from gatewise.app import reproduction  # noqa: PLC0415

    place = _claimed("regions", json_file, out)
    write_json(place, reproduction.show_regions(reps, seed, _runner(out, jobs, backend, scheduler), out))


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
    from gatewise.app import reproduction  # noqa: PLC0415

    place = _claimed("shared", json_file, out)
    runner = _runner(out, jobs, backend, scheduler)
    write_json(place, reproduction.show_shared(reps, seed, runner, out, coordinates))


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
    from gatewise.app import reproduction  # noqa: PLC0415

    place = _claimed("rates", json_file, out)
    write_json(place, reproduction.show_rates(reps, seed, _runner(out, jobs, backend, scheduler), out))


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
    from gatewise.app import reproduction  # noqa: PLC0415

    place = claim_json(json_file, KEYS["all"])
    places = {name: _claimed(name, out / f"{name}.json", out) for name in KEYS["all"]}
    runner = _runner(out, jobs, backend, scheduler)
    shows: dict[str, tuple[Callable[..., Any], int]] = {
        "table1": (reproduction.show_table1, 100),
        "regions": (reproduction.show_regions, 100),
        "shared": (reproduction.show_shared, 200),
        "rates": (reproduction.show_rates, 100),
    }
    found = {}
    for name, (show, usual) in shows.items():
        console.rule(name)
        found[name] = show(reps or usual, seed, runner, out)
        write_json(places[name], found[name])
    write_json(place, found)


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
    from gatewise.app import reproduction  # noqa: PLC0415

    place = _claimed("table1", json_file)
    write_json(place, reproduction.show_settings(reps, seed, _runner(out, jobs, backend, scheduler)))


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
    from gatewise.app import reproduction  # noqa: PLC0415

    place = _claimed("two-stage", json_file, out)
    write_json(place, reproduction.show_two_stage(reps, seed, _runner(out, jobs, backend, scheduler), out))


@app.command("scales", epilog="Example: gatewise reproduce scales --reps 100")
def sharing_scales(
    reps: Reps = 100,
    seed: Seed = 0,
    jobs: Jobs = -1,
    json_file: Json = None,
    out: Out = OUT,
    backend: BackendName = "joblib",
    scheduler: Scheduler = None,
) -> None:
    """How often the scale of every component of a tree of regions is recovered."""
    from gatewise.app import reproduction  # noqa: PLC0415

    place = _claimed("scales", json_file)
    write_json(place, reproduction.show_scales(reps, seed, _runner(out, jobs, backend, scheduler)))


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
    from gatewise.app import reproduction  # noqa: PLC0415

    place = _claimed("selection", json_file)
    runner = _runner(out, jobs, backend, scheduler)
    write_json(place, reproduction.show_selection(n or [], reps, seed, runner, burn_in, orders, radius))


@app.command(epilog="Example: gatewise reproduce outlook --jobs 2")
def outlook(
    reps: Annotated[
        int | None,
        typer.Option(min=2, help="Samples drawn in every cell; each experiment's own number if not given."),
    ] = None,
    seed: Seed = 0,
    jobs: Jobs = -1,
    json_file: Json = None,
    out: Out = OUT,
    backend: BackendName = "joblib",
    scheduler: Scheduler = None,
) -> None:
    """The outlook of section 7 as procedures: five experiments, each of which could have failed."""
    from gatewise.app import reproduction  # noqa: PLC0415

    place = _claimed("outlook", json_file)
    write_json(place, reproduction.show_outlook(reps, seed, _runner(out, jobs, backend, scheduler)))


@app.command("plan", epilog="Example: gatewise reproduce plan --jobs 2")
def kernel_plan(
    reps: Reps = 30,
    seed: Seed = 0,
    jobs: Jobs = -1,
    json_file: Json = None,
    out: Out = OUT,
    backend: BackendName = "joblib",
    scheduler: Scheduler = None,
) -> None:
    """The mesh of a kernel gate and the number of its experts, chosen from data, against the best of a grid."""
    from gatewise.app import reproduction  # noqa: PLC0415

    place = _claimed("plan", json_file)
    write_json(place, reproduction.show_kernel_plan(reps, seed, _runner(out, jobs, backend, scheduler)))


def _claimed(name: str, json_file: Path | None, out: Path | None = None) -> Output | None:
    """The place for the JSON of a command; an error if it, or a file of the folder ``out``, may not be replaced."""
    if out is not None and name in FIGURES:
        claim(out / FIGURES[name], [".png"], ours=has_mark)
    if out is not None and name == "table1":
        claim_json(out / "table1-common.json", KEYS[name])
    return claim_json(json_file, KEYS[name])


def _runner(out: Path, jobs: int, backend: str, scheduler: str | None) -> "Runner":
    from gatewise.paper.runner import Runner  # noqa: PLC0415
    from gatewise.paper.store import Store  # noqa: PLC0415

    return Runner(_backend(jobs, backend, scheduler), Store(out / "replications.sqlite"), show_progress)


def _backend(jobs: int, name: str, scheduler: str | None) -> "Backend":
    from gatewise.backends import dask_cluster, processes  # noqa: PLC0415

    if name == "joblib":
        return processes(jobs)
    if name != "dask":
        raise ValueError(f"backend must be 'joblib' or 'dask', not {name!r}")
    if scheduler is None:
        raise ValueError("backend 'dask' needs --scheduler, the address of its scheduler")
    return dask_cluster(scheduler)
