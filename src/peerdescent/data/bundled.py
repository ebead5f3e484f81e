"""Data sets that ship with scikit-learn: read from the installed package, without a download."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from peerdescent._util.extras import needed_for, require
from peerdescent._util.validation import check_choice
from peerdescent.data.datasets import BUNDLED, Dataset


def bundled(name: str) -> tuple[NDArray[np.float64], NDArray[np.int64] | NDArray[np.float64]]:
    """Return features, one row per sample, and targets of a data set that ships with scikit-learn.

    The targets are classes 0, 1, … as int64, and real numbers for `diabetes`, which is a regression.

    Args:
        name: `digits`, `breast-cancer`, `wine`, `iris` or `diabetes`.

    >>> features, classes = bundled("iris")
    >>> features.shape, np.bincount(classes).tolist()
    ((150, 4), [50, 50, 50])
    """
    check_choice("name", name, [dataset.name for dataset in BUNDLED])
    with needed_for("small data sets", "data"):
        from sklearn import datasets
    loaded = getattr(datasets, f"load_{name.replace('-', '_')}")()
    targets = loaded.target if name == "diabetes" else loaded.target.astype(np.int64)
    return np.asarray(loaded.data, dtype=np.float64), targets


def installed_data(dataset: Dataset) -> Path:
    """Return the folder of the files in the installed scikit-learn; raise InputError without it."""
    require("sklearn", f"the data set {dataset.name} and others like it", "data")
    spec = find_spec("sklearn")
    folders = (spec.submodule_search_locations if spec else None) or [""]
    return Path(folders[0]) / "datasets" / "data"
