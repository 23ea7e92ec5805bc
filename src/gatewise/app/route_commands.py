"""``gatewise route fit | decide | report``: which model for which query, from a table to decisions and a page."""

from pathlib import Path
from typing import Annotated

import typer

from gatewise.app.files import claim, claim_json, has_mark, header_with, is_model, write_json
from gatewise.app.terminal import Force, Jobs, Json, say
from gatewise.progress import shown

# Keys of the JSON that a command writes, and columns of its table: a file without them is not replaced unasked.
FACTS = ("models", "verdict", "candidates", "frontier")
DECISIONS = ("model", "weight", "runner_up", "lead")
app = typer.Typer(help="Which model for which query, what it saves, and whether routing pays.", no_args_is_help=True)

Table = Annotated[Path, typer.Argument(help="A CSV file, or Parquet by its ending.", show_default=False)]
Router = Annotated[Path, typer.Argument(help="A file that `gatewise route fit` has written.", show_default=False)]
Columns = Annotated[list[str] | None, typer.Option(help="A column of queries of this kind; may be repeated.")]


@app.command(
    epilog="Example: gatewise route fit table.parquet --scores 'right/*' --costs 'length/*' --text question "
    "--category category --out router.skops"
)
def fit(
    data: Table,
    scores: Annotated[str, typer.Option(help="The columns of scores; the star is the model's name.")],
    costs: Annotated[str | None, typer.Option(help="The columns of costs, with the same names.")] = None,
    text: Columns = None,
    category: Columns = None,
    number: Columns = None,
    out: Annotated[Path, typer.Option(help="Where the router goes, with the facts of its fit.")] = Path(
        "router.skops"
    ),
    seed: Annotated[int, typer.Option(min=0, help="Fixes the fit.")] = 0,
    jobs: Jobs = 1,
    json_file: Json = None,
    force: Force = False,
) -> None:
    """Fit a router to queries with the scores of every model, and say whether routing pays."""
    from gatewise.app.models import model_file, router_file, table_files  # noqa: PLC0415
    from gatewise.estimators import ScoreRouter  # noqa: PLC0415

    place = claim(out, model_file.ENDINGS, [data], force, is_model)
    figures = claim_json(json_file, FACTS, [data], force)
    named = (text or [], category or [], number or [])
    table = router_file.scored_queries(table_files.read_frame(data), scores, costs, *named)
    with shown():
        router = ScoreRouter(*router_file.column_choice(*named), n_jobs=jobs, random_state=seed)
        router.fit(table.X, table.scores, table.costs)
    facts = router.report()
    say(router.summary())
    say(f"router: {router_file.save_router(router, facts, place)}")
    write_json(figures, facts)


@app.command(
    epilog="Examples:\n\n"
    "gatewise route decide router.skops new.parquet --out decisions.csv\n\n"
    "gatewise route decide router.skops new.parquet --out decisions.csv --budget 300"
)
def decide(
    router: Router,
    data: Table,
    out: Annotated[Path, typer.Option(help="CSV, or Parquet by its ending: one row for each query.")],
    price: Annotated[float, typer.Option(min=0.0, help="What a unit of cost is worth in units of score.")] = 0.0,
    budget: Annotated[float | None, typer.Option(help="The mean cost that is not to be exceeded.")] = None,
    weights: Annotated[bool, typer.Option("--weights", help="Add the weight of every model.")] = False,
    json_file: Json = None,
    force: Force = False,
) -> None:
    """Decide which model to call for every query of a table."""
    from gatewise.app.models import router_file, table_files  # noqa: PLC0415

    place = claim(out, table_files.WRITTEN, [router, data], force, header_with(DECISIONS))
    figures = claim_json(json_file, DECISIONS, [router, data], force)
    if budget is not None and price:
        raise ValueError("give a price or a budget, not both")
    saved = router_file.load_router(router)
    answer = router_file.decide_frame(saved, table_files.read_frame(data), price, budget, weights)
    if budget is not None:
        plan = saved.router.plan(budget=budget)
        cost, score = plan.point.cost, plan.point.score
        spent = f"mean cost {cost.value:.4g} ({cost.low:.4g} to {cost.high:.4g})"
        reached = f"mean score {score.value:.4f} ({score.low:.4f} to {score.high:.4f})"
        say(f"price {plan.price:.4g}: {spent}, {reached}, 90 % intervals")
    where = table_files.write_answer(answer, place, figures)
    say(f"{len(answer)} decisions: {where}")


@app.command(epilog="Example: gatewise route report router.skops --out route.html")
def report(
    router: Router,
    out: Annotated[Path, typer.Option(help="Where the page goes.")] = Path("route.html"),
    json_file: Json = None,
    force: Force = False,
) -> None:
    """Explain a router: frontier, savings, categories by model, and what routing cannot tell. Needs no network."""
    from gatewise.app.models import router_file  # noqa: PLC0415
    from gatewise.app.page import page_file, route_page  # noqa: PLC0415

    place = claim(out, page_file.ENDINGS, [router], force, has_mark)
    figures = claim_json(json_file, FACTS, [router], force)
    saved = router_file.load_router(router)
    say(f"page: {route_page.write_route_page(saved.router, place, router.name)}")
    write_json(figures, dict(saved.facts))
