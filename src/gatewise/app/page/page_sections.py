"""The first five questions of the page, each answered in words, tables and plots; the sixth is a table of rows."""

from collections.abc import Sequence

from gatewise.app.models.method_scores import OURS, STACK
from gatewise.app.numbers import short_number
from gatewise.app.page import page_plots as plots
from gatewise.app.page.findings import BAND, Findings
from gatewise.app.page.importance import LEAST_MOVED, SHOWN
from gatewise.app.page.markup import element, Html, join
from gatewise.app.page.page_parts import (
    ANSWERS,
    beside,
    DASH,
    expert,
    figures,
    interval,
    leading_words,
    losing_leaders,
    NBSP,
    number,
    p_text,
    p_words,
    percent,
    region_words,
    root,
    saved_words,
    table,
    term,
)
from gatewise.geometry.specialization import ExpertReport

MOST_CANDIDATES = 10
_KINDS = {"single": "single experts", "stack": "fixed weights", "gate": "gates", "shared": "shared parts"}


def pays(findings: Findings) -> Html:
    """The section "Does gating pay here, and by how much?": the verdict and the errors of all methods."""
    best = min(score.rmse for score in findings.scores)
    rows = [
        [
            _method(findings, score.method),
            number(score.rmse),
            "" if score.gain is None else percent(score.gain),
        ]
        for score in findings.scores
    ]
    scores = table(
        ["method", "RMSE on these rows", "Gatewise saves against it (95 %)"],
        rows,
        bold=[score.rmse == best for score in findings.scores],
        note="RMSE in units of the target. Last column: the part of the method's squared error that Gatewise saves.",
    )
    text = "The part of each method's squared error that Gatewise saves; filled where the interval excludes 0."
    return join(
        element("p", _pays_words(findings), class_="answer"),
        *(element("p", f"Predictions are {words}.") for words in findings.beside_constant),
        element("p", _verdict_words(findings)),
        element("p", "Touch a dotted word to see what it means.", class_="soft screen-only"),
        beside(scores, figures((plots.gain_plot(findings), text))),
        _held_back(findings),
    )


def _pays_words(findings: Findings) -> Html:
    """The verdict in one sentence, with the one gain that the fit has told, too."""
    verdict = findings.verdict
    saved = saved_words(verdict.gain, "squared error", join(*_with_terms(verdict.baseline)))
    return join(f"{ANSWERS[verdict.headline]} ", saved)


def _verdict_words(findings: Findings) -> Html:
    verdict = findings.verdict
    kinds = ", ".join(f"{_KINDS.get(kind, kind)} {weight:.0%}" for kind, weight in verdict.weights.items())
    gain = join("That is the gain on ", term("held out"), " rows of the fit, with its ", term("95 % interval"), ".")
    nearest = join(" The ", term("aggregate"), " is nearest to one ", term("candidate"), f": {verdict.candidate}.")
    test = join(
        " Gating is said to pay only if ",
        term("gate", "gates"),
        f" help beyond all answers with fixed weights, by a test at 5{NBSP}% on rows that nothing behind them has "
        f"seen ({p_words(verdict.p_value)}), and if the held-out error falls. The ",
        term("share", "shares"),
        f" of a prediction: {kinds}.",
    )
    return join(gain, nearest, test)


def _with_terms(baseline: str) -> list[str | Html]:
    """The baseline with the words that the page explains."""
    head, stack, tail = baseline.partition("convex stack")
    return [head, term("convex stack"), tail] if stack else [baseline]


def _held_back(findings: Findings) -> Html | None:
    """A sentence on the errors on rows held back before the fit, if the model file has such facts."""
    try:
        trial = findings.facts["test"]
        scores = {str(score["method"]): float(score["rmse"]) for score in trial["scores"]}
        single = f"{trial['best_single']} alone"
        parts = ", ".join(f"{name} {short_number(scores[name])}" for name in (OURS, STACK, single))
        n_test, n_train = int(trial["n_test"]), int(trial["n_train"])
    except (KeyError, TypeError, ValueError):
        return None
    text = (
        f"Before the final fit, {n_test} rows were held back and {n_train} used to fit. RMSE on the former: {parts}."
    )
    return element("p", text, class_="soft")


def where(findings: Findings) -> Html:
    """The section "Where does each expert win?": importance of columns, plots of weights, table of regions."""
    names, regions = findings.rows.names, findings.regions
    columns = [one.column for one in findings.importance]
    rows = [
        [
            expert(names, row.expert),
            f"{row.share:.0%}",
            f"{row.mean_weight:.2f}",
            root(row.loss.value),
            join(expert(names, row.runner_up), f" {root(row.runner_up_loss.value)}") if row.share > 0 else DASH,
            interval(row.advantage) if row.share > 0 else DASH,
            row.wins if row.share > 0 else DASH,
            element("div", region_words(row.description, columns), class_="words"),
        ]
        for row in regions
    ]
    return join(
        leading_words(regions, findings.leaders),
        losing_leaders(regions),
        _importance_words(findings),
        figures(*_where_plots(findings)),
        table(
            [
                "expert",
                "leads",
                "mean weight",
                "RMSE there",
                "runner-up, RMSE there",
                "its MSE is larger by",
                "wins there",
                "region in words",
            ],
            rows,
            words={4, 6, 7},
            note="On held-out rows of the fit, differences with 95 % intervals. An expert leads where its weight is "
            "the largest, and wins there if it errs less than the runner-up beyond chance. The words name the "
            f"leading expert of {regions.fidelity:.0%} of the rows; missing values count as the column's median.",
        ),
    )


def _importance_words(findings: Findings) -> Html:
    some = [one for one in findings.importance if one.weight_moved >= LEAST_MOVED]
    if not some:
        return element(
            "p", "No column by itself moves the weights by more than 1 %: they hardly depend on the inputs."
        )
    parts = ", ".join(f"{one.column.name} ({one.weight_moved:.0%})" for one in some[:8])
    more = f" {len(some) - 8} more move some." if len(some) > 8 else ""
    return element(
        "p",
        "Columns by their ",
        term("importance"),
        f" for the gate, the part of the weight that moves between experts when a column is shuffled: {parts}.{more}",
    )


def _where_plots(findings: Findings) -> list[tuple[str, str]]:
    names, found = findings.rows.names, []
    if findings.map is not None:
        text = (
            f"Who leads over {findings.map.x.name} and {findings.map.y.name}, the other columns taken from rows of "
            "the data: paler where the lead is small, white line where it is 0.1. Dots are rows, each in the colour "
            "of its own leader."
        )
        found.append((plots.map_plot(findings.map, findings.rows), text))
    for one in findings.profiles[:SHOWN]:
        found.append((plots.profile_plot(one, names), f"Mean weights along {one.axis.name}."))
    return found


def real(findings: Findings) -> Html:
    """The section "Is the specialization real?": the test of specialization, expert by expert."""
    found, names = findings.specialization, findings.rows.names
    if found is None:
        return element("p", "There is one expert only.", class_="answer")
    rows = [
        [
            expert(names, names[one.expert]),
            one.n_rows,
            expert(names, names[one.runner_up]),
            interval(one.advantage),
            interval(one.excess),
            p_text(one.adjusted) if one.tested else _untested(one.n_rows, found.experts),
            "yes" if one.special else "not shown",
        ]
        for one in found.experts
    ]
    heads = ["expert", "test rows that chose it", "runner-up", "advantage there", "beyond that everywhere"]
    text = "By how much the advantage where chosen exceeds that over all rows; filled: shown to be special."
    return join(
        element("p", _real_words(findings), class_="answer"),
        element(
            "p",
            "An expert is a ",
            term("specialist"),
            " if its advantage over the runner-up, in squared error, is larger where the "
            "gate chooses it than over all rows, and positive there. One random half of the rows names the "
            "runner-up, the other half tests; the false discovery rate over experts is kept at 5 %. No expert and "
            "no gate was fitted on the row that it is judged by.",
        ),
        table(
            [*heads, "adjusted p", "special"],
            rows,
            words={2},
            note="Advantages in squared units of the target, with 95 % intervals.",
        ),
        figures((plots.advantage_plot(findings), text)) if any(one.tested for one in found.experts) else None,
    )


def _untested(n_rows: int, experts: Sequence[ExpertReport]) -> str:
    """Why an expert is not tested: on which side rows are missing."""
    return "too few rows" if 2 * n_rows < sum(one.n_rows for one in experts) else "too few rows of others"


def _real_words(findings: Findings) -> str:
    found, names = findings.specialization, findings.rows.names
    if found is None:
        return "There is one expert only."
    tested = [names[one.expert] for one in found.experts if one.tested]
    special = [names[m] for m in found.special]
    if not tested:
        return "Nothing to test: no expert has enough rows that chose it, and enough that did not."
    if not special:
        return f"Not shown for any of the {len(tested)} that could be tested: where they lead may be luck."
    others = [name for name in tested if name not in special]
    return f"Yes for {', '.join(special)}." + (f" Not shown for {', '.join(others)}." if others else "")


def how_many(findings: Findings) -> Html:
    """The section "How many experts to activate?": the squared error when each row keeps its K largest weights."""
    if findings.activation is None:
        return element("p", "There is one expert only.", class_="answer")
    enough = next((one for one in findings.active if one.excess.high <= 0.01), findings.active[-1])
    k_low, k = findings.activation.k_low, findings.activation.k
    upto = f"{k}" if k == k_low else f"{k_low} to {k}"
    return join(
        element(
            "p",
            f"{enough.k} {'expert is' if enough.k == 1 else 'experts are'} enough for a row: the squared error is at "
            f"most 1{NBSP}% above that of the full gate, by the upper end of its 95{NBSP}% interval.",
            class_="answer",
        ),
        element(
            "p",
            "Each row keeps its largest weights, scaled to sum one. Measured another way, by the best fixed mixtures "
            f"within the region of each leading expert, {upto} {'is' if upto == '1' else 'are'} enough: beyond the "
            f"larger number a further one is shown to save less than 1{NBSP}%, beyond the smaller no gain is shown.",
        ),
        beside(
            table(
                ["experts", "RMSE", "extra squared error (95 %)"],
                [[one.k, number(one.rmse), percent(one.excess)] for one in findings.active],
                note="Against the gate with all experts. What some candidates add to the mixture is left out here: "
                "the correction, and shared parts (forest, boosted trees, products).",
            ),
            figures((plots.active_plot(findings), "Extra squared error by the number of experts, 95 % intervals.")),
        ),
    )


def how_sure(findings: Findings) -> Html:
    """The section "How sure is the router?": rows near a border, and the aggregation weights of the candidates."""
    found = findings.margins
    shown = findings.candidates[:MOST_CANDIDATES]
    rest = sum(one.weight for one in findings.candidates[MOST_CANDIDATES:])
    effective = 1.0 / sum(one.weight**2 for one in findings.candidates)
    more = f" The other {len(findings.candidates) - len(shown)} have {rest:.3f} together." if rest else ""
    return join(
        element(
            "p",
            f"{found.share:.0%} of the rows lie in the band at the borders, where the two largest weights differ by "
            f"less than {BAND:g}.",
            class_="answer",
        ),
        element(
            "p",
            f"RMSE in the band {number(found.rmse_band)}, elsewhere {number(found.rmse_rest)}. The aggregate "
            f"averages {len(findings.candidates)} candidates; the effective number of candidates, "
            f"1 over the sum of their squared weights, is {effective:.1f}.",
        ),
        beside(
            table(
                ["candidate", "share", "held-out RMSE", "price"],
                [[one.candidate, f"{one.weight:.3f}", number(one.rmse), f"{one.price:.1f}"] for one in shown],
                note=f"The candidates of largest share; the price is log(1 / prior weight).{more}",
            ),
            figures(
                (plots.margin_plot(findings), "How far the first expert is ahead of the second; the band is shaded.")
            ),
        ),
    )


def _method(findings: Findings, method: str) -> Html:
    names = findings.rows.names
    best = " (best single in the fit)" if method == f"{findings.best_single} alone" else ""
    for name in names:
        if method == f"{name} alone":
            return join(expert(names, name), " alone", best)
    return join(method)
