"""``python -m benchmarks.xray_study.corpus``: the text of a Debian machine, as tokens with known kinds of documents.

Manual pages in several languages, Python and C sources, documentation. Documents are divided at random into those
that models are trained on, those that the X-ray sees, and a pool for the coverage of the certificate of pruning.
"""

import gzip
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import decoders, models, pre_tokenizers, Tokenizer, trainers

FILE = Path("out/xray_corpus/corpus.npz")
TOKENIZER = Path("out/xray_corpus/tokenizer.json")
VOCABULARY = 4096
LONGEST, KIND_BYTES = 12_000, 8_000_000  # of a document, and of a kind
SEEN, LENGTH = 18, 256  # documents of a kind that the X-ray sees, and their tokens
POOL, POOL_LENGTH = 300, 128  # documents of each large kind in the pool
LANGUAGES = ("de", "fr", "ru", "ja", "pl")
KINDS: dict[str, tuple[str, str]] = {
    "man en": ("/usr/share/man", "man[1-8]/*.gz"),
    **{f"man {code}": (f"/usr/share/man/{code}", "**/*.gz") for code in LANGUAGES},
    "python": ("/usr/lib", "python3*/**/*.py"),
    "c": ("/usr/include", "**/*.h"),
    "documentation": ("/usr/share/doc", "**/*"),
}
LARGE = ("man en", "python", "c", "documentation")
PROSE = (".txt", ".md", ".rst", "README", "README.gz", "NEWS.gz", "changelog.gz")


def read(path: Path) -> str:
    """The start of a file as text; empty where it is not UTF-8."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            text = file.read(4 * LONGEST).decode("utf-8", errors="ignore")
    except OSError:
        return ""
    if path.suffix == ".gz" and "/man/" in str(path):
        text = re.sub(r"^[.']\s*\\\".*\n|^\.[A-Za-z]+ ?", "", text, flags=re.MULTILINE)
        text = re.sub(r"\\f[A-Z]|\\&|\\\(..", "", text).replace("\\-", "-")
    return text[:LONGEST]


def documents(kind: str, rng: np.random.Generator) -> Iterator[str]:
    """Documents of a kind in random order, until there are enough bytes."""
    folder, pattern = KINDS[kind]
    paths = sorted(path for path in Path(folder).glob(pattern) if path.is_file() and not path.is_symlink())
    if kind == "documentation":
        paths = [path for path in paths if path.name.endswith(PROSE)]
    size = 0
    for place in rng.permutation(len(paths)):
        text = read(paths[place])
        if len(text) > 1500 and size < KIND_BYTES:
            size += len(text.encode())
            yield text


def trained_tokenizer(texts: list[str]) -> Tokenizer:
    """Byte pairs, learned from the texts."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<pad>", "<document>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=special, initial_alphabet=alphabet)
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def main(seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    texts = {kind: list(documents(kind, rng)) for kind in KINDS}
    tokenizer = trained_tokenizer([text[:3000] for group in texts.values() for text in group])
    train: list[int] = []
    seen: list[list[int]] = []
    pool: list[list[int]] = []
    kinds: list[str] = []
    for kind, group in texts.items():
        tokens = [[1, *one.ids] for one in tokenizer.encode_batch(group)]
        long = [one for one in tokens if len(one) >= LENGTH]
        seen += [one[:LENGTH] for one in long[:SEEN]]
        kinds += [kind] * len(long[:SEEN])
        rest = [one for one in tokens if len(one) < LENGTH] + long[SEEN:]
        apart = min(POOL, len(rest) // 4) if kind in LARGE else 0
        pool += [one[:POOL_LENGTH] for one in rest[:apart] if len(one) >= POOL_LENGTH]
        for one in rest[apart:]:
            train += one
        print(kind, len(group), "documents", sum(map(len, tokens)), "tokens")
    FILE.parent.mkdir(parents=True, exist_ok=True)
    arrays: dict[str, Any] = {"train": train, "seen": seen, "pool": pool}
    np.savez_compressed(
        FILE, kinds=np.array(kinds), **{key: np.array(a, dtype=np.uint16) for key, a in arrays.items()}
    )
    tokenizer.save(str(TOKENIZER))


if __name__ == "__main__":
    main()
