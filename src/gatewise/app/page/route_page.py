"""The page of a router: frontier, savings, categories by model, and what routing cannot tell."""

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from gatewise.app.figures.geometry_figures import LINES
from gatewise.app.files import has_mark, Output, write_text
from gatewise.app.numbers import short_number
from gatewise.app.page.markup import element, Html, join
from gatewise.app.page.page_file import document, ENDINGS
from gatewise.app.page.page_parts import figures, interval, NBSP, p_words, table
from gatewise.app.page.page_plots import colour, image, short
from gatewise.estimators import ScoreRouter
from gatewise.scores.route_regions import CategoryRow

MOST_LEVELS = 30  # of a category in the table; the map shows MAP_LEVELS
MAP_LEVELS = 16
MAP_MODELS = 6
SHOWN_POINTS = 12


def write_route_page(router: ScoreRouter, place: Path | Output, name: str = "") -> Path:
    """Write the page of a fitted router; ``name`` is that of its file."""
    return write_text(place, render_route(router, name), ENDINGS, has_mark)


def render_route(router: ScoreRouter, name: str = "") -> Html:
    """The page as one text."""
    questions = [
        ("pays", "Does routing pay?", _pays(router)),
        ("frontier", "What does it save?", _frontier(router)),
        ("where", "Which model for which queries?", _where(router)),
        ("limits", "What can routing not tell?", _limits(router)),
    ]
    parts = [
        element("section", element("h2", f"{place}. {question}"), answer, id=key)
        for place, (key, question, answer) in enumerate(questions, start=1)
    ]
    n, M = router.routes_.held_out.scores.shape
    source = f"{f'Router {name}: ' * bool(name)}{n:,} queries and {M} models. Every figure is of held-out queries: "
    source += "each was decided on by fits that had not seen it."
    return document("Which model for which query", source, [(key, text) for key, text, _ in questions], parts)


def _pays(router: ScoreRouter) -> Html:
    verdict, scores = router.verdict_, router.routes_.held_out.scores
    frontier = router.frontier()
    first = frontier.points[0]
    words = (
        f"{verdict.headline[:1].upper()}{verdict.headline[1:]}. The router's mean score is {first.score.value:.4f}, "
        f"that of the best single model, {verdict.best_single}, {frontier.single_score.value:.4f}: a gain of "
        f"{verdict.gain.value:+.4f} (95{NBSP}% interval {verdict.gain.low:+.4f} to {verdict.gain.high:+.4f})."
    )
    test = (
        "Routing is said to pay only if it scores more than every single model, by a test at 5 % on queries that "
        f"nothing behind it has seen ({p_words(verdict.p_value)})."
    )
    if len(frontier) > 1:
        test += f" The same test for score less price times cost, at five prices: {p_words(verdict.cost_p_value)}."
    more = f" {verdict.queries_needed(len(scores))}"
    weights = router.routes_.weights.weights[0]
    leading = [s for s in np.argsort(-weights)[:6] if weights[s] >= 0.005]
    shares = table(
        ["candidate", "weight"],
        [[router.routes_.candidates[s], f"{weights[s]:.2f}"] for s in leading],
        note="What the decision at price 0 is made of.",
    )
    best = np.argsort(-scores.mean(axis=0))[:8]
    costs = router.routes_.held_out.costs.mean(axis=0)
    models = table(
        ["model", "mean score", "mean cost"],
        [[str(router.models_[m]), f"{scores[:, m].mean():.4f}", short_number(float(costs[m]))] for m in best],
        note="The best single models.",
    )
    return join(element("p", words, class_="answer"), element("p", test + more), models, shares)


def _frontier(router: ScoreRouter) -> Html:
    frontier = router.frontier()
    if len(frontier) == 1:
        return element("p", "There were no costs, or all models cost the same: there is nothing to save.")
    shown = [
        frontier.points[i] for i in np.unique(np.linspace(0, len(frontier) - 1, SHOWN_POINTS).round().astype(int))
    ]
    rows = [
        [f"{one.price:.3g}", interval(one.score), interval(one.cost), f"{100 * one.saving.value:.1f}{NBSP}%"]
        for one in shown
    ]
    scores = table(
        ["price", "mean score", "mean cost", "cost saved"],
        rows,
        note=f"90 % intervals. Savings are against {frontier.best_single} for every query, which costs "
        f"{short_number(frontier.single_cost.value)} in the mean.",
    )
    near = frontier.single_score.value - 0.01
    reached = [one for one in frontier if one.score.value >= near]
    cheap = min(reached, key=lambda one: one.cost.value) if reached else frontier.points[0]
    words = (
        f"At the mean score of the best single model less 0.01, routing saves {100 * cheap.saving.value:.0f}{NBSP}% "
        f"of its cost (90{NBSP}% interval {100 * cheap.saving.low:.0f} to {100 * cheap.saving.high:.0f})."
        if reached and cheap.saving.value > 0.0
        else "At the mean score of the best single model less 0.01, no price saves cost."
    )
    text = "Mean score against mean cost over all prices, with a band for all of them at once; dots are models."
    return join(element("p", words, class_="answer"), figures((_frontier_plot(router), text)), scores)


def _frontier_plot(router: ScoreRouter) -> str:
    frontier, held_out = router.frontier(), router.routes_.held_out

    def draw(panel: Axes) -> None:
        points = sorted(frontier, key=lambda one: one.cost.value)
        costs = [one.cost.value for one in points]
        panel.fill_between(
            costs,
            [p.band.low for p in points],
            [p.band.high for p in points],
            alpha=0.25,
            color=LINES[0],
            linewidth=0,
        )
        panel.plot(costs, [p.score.value for p in points], color=LINES[0], linewidth=2, label="router")
        x, y = held_out.costs.mean(axis=0), held_out.scores.mean(axis=0)
        panel.scatter(x, y, s=16, color="#333333", zorder=3)
        for rank, m in enumerate(np.argsort(-y)[:4]):
            panel.annotate(
                short(str(router.models_[m]), 18),
                (x[m], y[m]),
                fontsize=8,
                xytext=(3, 4 if rank % 2 else -9),  # neighbours on two sides, so that names stay apart
                textcoords="offset points",
            )
        if min(costs) > 0.0 and x.min() > 0.0:
            panel.set_xscale("log")
            for axis_part in (panel.xaxis.set_major_formatter, panel.xaxis.set_minor_formatter):
                axis_part(FuncFormatter(lambda value, _: _decade(value)))
        panel.set(xlabel="mean cost", ylabel="mean score")

    return image(draw, 3.4)


def _decade(value: float) -> str:
    """The label of a tick on a logarithmic axis: 1, 2 and 5 times a power of ten have one.

    >>> _decade(200.0), _decade(300.0)
    ('200', '')
    """
    lead = value / 10.0 ** np.floor(np.log10(value))
    return short_number(value) if min(abs(lead - one) for one in (1.0, 2.0, 5.0)) < 1e-6 else ""


def _where(router: ScoreRouter) -> Html:
    rows = [
        [
            row.model,
            f"{100 * row.share:.0f}{NBSP}%",
            interval(row.score),
            row.runner_up,
            interval(row.advantage),
            row.description,
        ]
        for row in router.region_table().shown
    ]
    hidden = router.regions_.hidden
    regions = table(
        ["model", "queries", "score there", "runner-up", "beyond it", "where"],
        rows,
        words={3, 5},
        note="Held-out decisions at price 0. The words name the decision of "
        f"{100 * router.regions_.fidelity:.0f}{NBSP}% of the queries.{f' Beside these {hidden}.' * bool(hidden)}",
    )
    parts: list[Html] = [regions]
    for column in dict.fromkeys(row.column for row in router.category_rows_):
        own = [row for row in router.category_rows_ if row.column == column]
        text = f"Share of the queries of each level of {column} for which each model is decided on."
        parts.append(figures((_category_plot(own[:MAP_LEVELS], [str(name) for name in router.models_]), text)))
        parts.append(
            table(
                [column, "queries", "mostly", "router", "best single", "gain"],
                [
                    [
                        row.level,
                        f"{row.n_queries:,}",
                        f"{row.model} ({100 * row.model_share:.0f}{NBSP}%)",
                        f"{row.router.value:.3f}",
                        f"{row.best_single:.3f}",
                        interval(row.gain),
                    ]
                    for row in own[:MOST_LEVELS]
                ],
                words={2},
                note=f"The {min(MOST_LEVELS, len(own))} most frequent of {len(own)} levels; 95 % intervals.",
            )
        )
    return join(*parts)


def _category_plot(rows: list[CategoryRow], names: list[str]) -> str:
    """Bars of the shares of the models; those that no level gives 5 % of its queries are one grey part."""
    shares = np.array([row.shares for row in rows])  # (levels, M)
    shown = [m for m in np.argsort(-shares.mean(axis=0))[:MAP_MODELS] if shares[:, m].max() >= 0.05]
    parts = [(short(names[m]), colour(place), shares[:, m]) for place, m in enumerate(shown)]
    rest = 1.0 - shares[:, shown].sum(axis=1)
    if rest.max() > 1e-9:
        parts.append(("other models", "#cccccc", rest))

    def draw(panel: Axes) -> None:
        left = np.zeros(len(rows))
        for name, tint, width in parts:
            panel.barh(range(len(rows)), width, left=left, color=tint, label=name)
            left += width
        panel.set_yticks(range(len(rows)), [short(row.level, 22) for row in rows])
        panel.set(xlabel="share of the queries", xlim=(0, 1), ylim=(len(rows) - 0.4, -0.6))
        panel.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, fontsize=9)

    return image(draw, 0.26 * len(rows) + 1.2 + 0.1 * len(parts))


def _limits(router: ScoreRouter) -> Html:
    found = router.routability_
    assumed = element("p", f"Beware: {router.assumption_}.") if router.assumption_ else None
    if found is None:
        words = "Not every model was tried on every query, so what a perfect router would reach is not known."
        return join(element("p", words, class_="answer"), assumed)
    words = (
        f"A perfect router, which sees the scores before it decides, would reach {found.perfect:.3f}. "
        f"{100 * found.luck_share:.0f}{NBSP}% of its distance to the best single model can be luck."
    )
    rows = [
        ["best single model", f"{found.best_single:.4f}"],
        ["router, held-out queries", f"{found.router:.4f}"],
        ["perfect router if nothing could be routed: luck", f"{found.by_luck:.4f}"],
        ["perfect router of this table", f"{found.perfect:.4f}"],
        ["bounds of a router that knows all expected scores", f"{found.low:.4f} to {found.high:.4f}"],
    ]
    luck = (
        "Where a model is right by chance, the perfect router of a table collects that chance, which no feature of "
        "the query can forecast. Only asking models several times the same query tells more."
    )
    return join(
        element("p", words, class_="answer"),
        element("p", luck),
        table(["", "mean score"], rows, note=f"Rests on: {found.assumption}."),
        assumed,
    )
