"""A column of text as numbers: TF-IDF with a truncated singular value decomposition, and how the text looks."""

import re
import string
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from gatewise.arrays import Floats

MOST_TERMS = 20_000
LEAST_ROWS = 3  # a term in fewer rows is left out
MOST_SHARE = 0.5  # of the rows: a term in more of them says nothing
PASSES = 3  # power iterations of the randomised decomposition
LOOKS = ("length", "words", "digits", "punctuation", "symbols", "capitals", "word length")
_WORD = re.compile(r"\b\w\w+\b")  # a word of two letters or more
_OTHER, _DIGIT, _PUNCTUATION, _SYMBOL, _CAPITAL = range(5)


def _byte_kinds() -> NDArray[np.uint8]:
    """The kind of each byte of a text in UTF-8; symbols are the punctuation of formulas."""
    kinds = np.full(256, _OTHER, dtype=np.uint8)
    for characters, kind in (
        (string.digits, _DIGIT),
        (string.punctuation, _PUNCTUATION),
        ("\\${}=^_", _SYMBOL),
        (string.ascii_uppercase, _CAPITAL),
    ):
        kinds[np.frombuffer(characters.encode(), dtype=np.uint8)] = kind
    return kinds


_KINDS = _byte_kinds()


@dataclass(frozen=True, eq=False)
class TextColumn:
    """The terms of a column of text, their weights and the axes (V, r) of its leading singular vectors.

    A row is the vector of sublinear counts 1 + log(count) times idf = 1 + log((1 + n) / (1 + rows with the term)), of
    length one, projected on the axes. ``unit`` makes the mean square length of the projections one in the fit.

    >>> texts = ["add two and three", "add five and two", "who wrote the play", "who wrote the song"] * 3
    >>> column, _ = TextColumn.fit("question", texts, n_components=2, seed=0)
    >>> Z = column.transform(["add two and five", "who wrote it"])
    >>> Z.shape, bool(np.abs(Z[0] @ Z[1]) < 0.3 * np.linalg.norm(Z[0]) * np.linalg.norm(Z[1]))
    ((2, 2), True)
    """

    name: str
    terms: str  # one a line, in the order of the columns
    idf: Floats  # (V,)
    axes: NDArray[np.float32]  # (V, r)
    unit: float

    @classmethod
    def fit(cls, name: str, texts: Sequence[str], n_components: int, seed: int) -> tuple[Self, Floats]:
        """Terms, weights and axes of these texts, and their projections; no axes where no term is frequent."""
        from sklearn.decomposition import TruncatedSVD  # noqa: PLC0415 - slow to import
        from sklearn.feature_extraction.text import CountVectorizer  # noqa: PLC0415

        counter = CountVectorizer(min_df=min(LEAST_ROWS, len(texts)), max_df=MOST_SHARE, max_features=MOST_TERMS)
        try:
            counts = counter.fit_transform(texts)
        except ValueError:  # no term is left
            return cls.empty(name), np.zeros((len(texts), 0))
        terms = counter.get_feature_names_out()
        idf = 1.0 + np.log((1.0 + len(texts)) / (1.0 + np.asarray((counts > 0).sum(axis=0)).ravel()))
        rows = _weighted(counts, idf)
        rank = min(n_components, rows.shape[1] - 1, rows.shape[0] - 1)
        if rank < 1:
            return cls.empty(name), np.zeros((len(texts), 0))
        decomposition = TruncatedSVD(rank, n_iter=PASSES, random_state=seed).fit(rows)
        axes = np.ascontiguousarray(decomposition.components_.T, dtype=np.float32)
        projected = np.asarray(rows @ axes, dtype=np.float64)
        unit = float(np.sqrt(np.mean(np.sum(projected**2, axis=1)))) or 1.0
        return cls(name, "\n".join(terms), idf, axes, unit), projected / unit

    @classmethod
    def empty(cls, name: str) -> Self:
        """A column without terms."""
        return cls(name, "", np.zeros(0), np.zeros((0, 0), dtype=np.float32), 1.0)

    def transform(self, texts: Sequence[str]) -> Floats:
        """The projections of texts, (n, r)."""
        if not self.axes.size or not texts:
            return np.zeros((len(texts), self.axes.shape[1]))
        return (
            np.asarray(_weighted(count_terms(texts, self.terms), self.idf) @ self.axes, dtype=np.float64) / self.unit
        )


def count_terms(texts: Sequence[str], terms: str) -> Any:
    """How often each of the terms, one a line, stands in each text: sparse, (n, V), as `CountVectorizer` counts."""
    places = _places(terms)
    starts, found = [0], []
    for text in texts:
        found += [place for word in _WORD.findall(text.lower()) if (place := places.get(word)) is not None]
        starts.append(len(found))
    counts = csr_array((np.ones(len(found)), np.array(found, dtype=np.intp), starts), shape=(len(texts), len(places)))
    counts.sum_duplicates()
    return counts


@lru_cache(maxsize=16)
def _places(terms: str) -> dict[str, int]:
    """The place of every term."""
    return {term: place for place, term in enumerate(terms.split("\n"))}


def _weighted(counts: Any, idf: Floats) -> Any:
    """Sparse counts (n, V) as sublinear TF-IDF with rows of length one."""
    from sklearn.preprocessing import normalize  # noqa: PLC0415

    rows = counts.astype(np.float64)
    rows.data = (1.0 + np.log(rows.data)) * idf[rows.indices]
    return normalize(rows, copy=False)


def text_looks(texts: Sequence[str]) -> Floats:
    """How texts look, (n, 7), in the order of LOOKS: log length and words, shares of kinds of letters, word length.

    >>> text_looks(["Is 2+2 = 4?"]).round(2)
    array([[2.48, 1.61, 0.25, 0.17, 0.08, 0.08, 2.75]])
    """
    rows = []
    for text in texts:
        length, words = len(text), text.count(" ") + 1
        kinds = np.bincount(_KINDS[np.frombuffer(text.encode("utf-8", "replace"), dtype=np.uint8)], minlength=5)
        shares = kinds[[_DIGIT, _PUNCTUATION, _SYMBOL, _CAPITAL]] / (length + 1)
        rows.append([np.log1p(length), np.log1p(words), *shares, length / words])
    return np.array(rows, dtype=np.float64).reshape(len(texts), len(LOOKS))
