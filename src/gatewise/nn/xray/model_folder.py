"""From a folder of the transformers library and text files to the page: what ``gatewise xray`` does."""

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gatewise.geometry.grouped_rows import FEWEST_GROUPS
from gatewise.nn.xray.inspector import Xray, xray
from gatewise.nn.xray.token_kinds import token_kinds
from gatewise.nn.xray.trace import Trace
from gatewise.nn.xray.verdicts import verdicts
from gatewise.nn.xray.xray_page import page

LENGTH = 256  # tokens of a document that are read


def text_files(paths: Sequence[Path]) -> list[Path]:
    """The files that are named, and those within folders that are named, in order; fewer than 20 are refused."""
    missing = [str(path) for path in paths if not path.exists()]
    if missing:
        raise ValueError(f"--text must name files or folders that exist, but {missing[0]} does not")
    found = [file for path in paths for file in (sorted(path.rglob("*")) if path.is_dir() else [path])]
    files = [file for file in found if file.is_file()]
    if len(files) < FEWEST_GROUPS:
        raise ValueError(
            f"--text must name at least {FEWEST_GROUPS} files, or a folder of them, as each file is a document and "
            f"documents are the units of all statistics, not {len(files)}"
        )
    return files


def load_folder(folder: Path) -> tuple[Any, Any]:
    """The model in float32 and the tokenizer of a local folder; nothing is downloaded."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what transformers' own imports deprecate
            from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: PLC0415
            from transformers.utils import logging  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("gatewise xray needs transformers: pip install 'gatewise[xray]'") from error
    if not (folder / "config.json").exists():
        raise ValueError(
            f"MODEL_FOLDER must hold a model of transformers with its config.json, but {folder} does not"
        )
    quiet: Any = logging
    quiet.disable_progress_bar()
    options: dict[str, Any] = {"local_files_only": True}
    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, **options)
    return model, AutoTokenizer.from_pretrained(folder, **options)


def encoded(files: Sequence[Path], tokenizer: Any, length: int = LENGTH) -> tuple[Any, Any]:
    """Token ids and mask, (G, T) both: the beginning of every file, padded on the right."""
    rows = [tokenizer.encode(file.read_text(encoding="utf-8", errors="replace"))[:length] for file in files]
    width = max(2, *(len(row) for row in rows))
    ids, mask = np.zeros((2, len(rows), width), dtype=np.int64)
    for place, row in enumerate(rows):
        ids[place, : len(row)], mask[place, : len(row)] = row, 1
    return ids, mask


def examined(
    folder: Path,
    texts: Sequence[Path],
    budget: int | None = None,
    initial: Path | None = None,
    say: Callable[[str], None] = print,
) -> tuple[Trace, str]:
    """Ask a model everything: the trace and the page, as HTML; classes are kinds of tokens.

    ``initial`` is the folder of the initial checkpoint, where there is one.
    """
    files = text_files(texts)
    model, tokenizer = load_folder(folder)
    ids, mask = encoded(files, tokenizer)
    names = [str(file) for file in files]
    before = None
    if initial is not None:
        with xray(_placed(load_folder(initial)[0])) as x:
            before = x.run(ids, names, mask)
    with xray(_placed(model)) as x:
        trace = x.run(ids, names, mask)
        words = [tokenizer.decode([place]) for place in range(max(len(tokenizer), int(trace.ids.max()) + 1))]
        for what, ask in questions(x, np.array(token_kinds(words))[trace.ids], budget, before):
            _asked(what, ask, say)
    return trace, page(trace, words)


def questions(
    x: Xray, classes: Any, budget: int | None = None, initial: Trace | None = None
) -> list[tuple[str, Callable[[], Any]]]:
    """Everything that can be asked of a model that was run, by name; ``classes`` (n,) are those of its tokens."""
    trace = x.trace
    asked: list[tuple[str, Callable[[], Any]]] = [
        ("load and entropy", lambda: (trace.load(), trace.entropy())),
        ("usage against chance", lambda: trace.usage(classes, "chance")),
        ("usage against random routers", lambda: trace.usage(classes, "router", initial=initial)),
        ("experts that are active together", lambda: trace.coactivation(classes)),
        ("experts taken away", x.ablate),
        ("substitutes", x.redundancy),
        ("better routers", x.gate_regret),
        ("specialists", x.specialization),
        ("best experts chosen", x.alignment),
    ]
    if budget is not None:
        asked.append((f"{budget} experts a layer", lambda: x.prune(budget)))
    return asked


def _placed(model: Any) -> Any:
    """The model on the GPU where there is one."""
    return model.cuda() if torch.cuda.is_available() else model


def _asked(what: str, ask: Callable[[], Any], say: Callable[[str], None]) -> None:
    """Ask one question; a model that it cannot be asked of is no reason to leave out the others."""
    say(what)
    try:
        ask()
    except ValueError as error:
        say(f"  not for this model: {error}")


def verdict_counts(trace: Trace) -> dict[str, int]:
    """How many experts have each verdict."""
    said = [one.verdict for one in verdicts(trace)]
    return {word: said.count(word) for word in dict.fromkeys(said)}
