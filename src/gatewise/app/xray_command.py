"""``gatewise xray``: a page of what the experts of a trained language model do."""

from pathlib import Path
from typing import Annotated

import typer

from gatewise.app.files import claim, has_mark, write_text
from gatewise.app.terminal import Force, say

ENDINGS = (".html",)
app = typer.Typer()


@app.command(epilog="Example: gatewise xray ./olmoe --text ./articles --out xray.html")
def xray(
    model_folder: Annotated[Path, typer.Argument(help="A local folder of a transformers model; nothing is fetched.")],
    text: Annotated[list[Path], typer.Option(help="Text files or folders of them; each file is a document.")],
    more: Annotated[
        list[Path] | None, typer.Argument(metavar="FILE", help="Further text files, as in --text *.txt.", hidden=True)
    ] = None,
    out: Annotated[Path, typer.Option(help="The page.")] = Path("xray.html"),
    keep: Annotated[
        int | None, typer.Option(min=1, help="Also certify a model with so many experts a layer.")
    ] = None,
    initial: Annotated[
        Path | None, typer.Option(help="Folder of the initial checkpoint: what was learned must exceed it, too.")
    ] = None,
    force: Force = False,
) -> None:
    """Look into a mixture-of-experts language model: what does each expert do, and is it real?"""
    files = [*text, *(more or [])]
    place = claim(out, ENDINGS, files, force, has_mark)
    from gatewise.nn.xray.model_folder import examined, verdict_counts  # noqa: PLC0415 - torch takes seconds

    trace, page = examined(model_folder, files, keep, initial, say)
    write_text(place, page, ENDINGS, has_mark)
    counts = ", ".join(f"{count} {verdict}" for verdict, count in verdict_counts(trace).items())
    say(f"{len(trace.ids)} tokens in {trace.n_documents} documents; experts: {counts}")
    say(f"{out} has the page")
