"""Adult: people of the census of 1994, with six numbers and eight categories each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerdescent.data.fetch import Announce, load, silent
from peerdescent.data.formats import CENSUS_COLUMNS, CENSUS_NUMBERS, INCOMES, UNKNOWN
from peerdescent.data.mnist import Labels

Columns = dict[str, NDArray[Any]]
CATEGORIES = tuple(name for name in CENSUS_COLUMNS if name not in (*CENSUS_NUMBERS, "income"))
"""The columns that hold categories, by which the people can be split among agents."""


@dataclass(frozen=True, eq=False)
class Census:
    """The complete rows of Adult: columns by name, numbers as int64 and categories as texts."""

    train: Columns
    train_labels: Labels
    """1 for an income of more than 50,000 dollars, otherwise 0."""
    test: Columns
    test_labels: Labels

    def features(self) -> tuple[NDArray[np.float64], NDArray[np.float64], list[str]]:
        """Return the features of the training rows and of the test rows, and their names.

        Numbers are centred and scaled by the mean and standard deviation of the training rows. A category is one
        feature for each of its values in the training rows: 1 where the row has it, otherwise 0.
        """
        train, test, names = [], [], []
        for key in CENSUS_NUMBERS:
            mean, deviation = self.train[key].mean(), self.train[key].std()
            names.append(key)
            train.append((self.train[key] - mean) / (deviation or 1.0))
            test.append((self.test[key] - mean) / (deviation or 1.0))
        for key in CATEGORIES:
            for value in np.unique(self.train[key]):
                names.append(f"{key}={value}")
                train.append((self.train[key] == value).astype(np.float64))
                test.append((self.test[key] == value).astype(np.float64))
        return np.column_stack(train), np.column_stack(test), names


def adult(announce: Announce = silent) -> Census:
    """Return the rows of Adult without unknown values: 30,162 for training and 15,060 for testing.

    Fetches the data set first if it is not in the cache, like `peerdescent data fetch adult`.

    Args:
        announce: called with one line of text for every source tried, if the data set must be fetched.

    >>> census = adult(announce=print)  # doctest: +SKIP
    >>> len(census.train_labels), len(census.test_labels), census.features()[0].shape  # doctest: +SKIP
    (30162, 15060, (30162, 104))
    """
    held = load("adult", announce)
    train, test = (_complete(held[name]) for name in ("adult.data", "adult.test"))
    return Census(*train, *test)


def _complete(columns: dict[str, list[str]]) -> tuple[Columns, Labels]:
    """Return the rows without unknown values, and which of them have the larger income."""
    table = {key: np.array(values) for key, values in columns.items()}
    kept = np.all([table[key] != UNKNOWN for key in CATEGORIES], axis=0)
    numbers = {key: table[key][kept].astype(np.int64) for key in CENSUS_NUMBERS}
    categories = {key: table[key][kept] for key in CATEGORIES}
    return {**numbers, **categories}, (table["income"][kept] == INCOMES[1]).astype(np.int64)
