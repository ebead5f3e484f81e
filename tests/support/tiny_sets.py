"""Small files in the formats of CIFAR-10, Adult and Shakespeare's plays, and what they hold."""

import hashlib
import io
import json

import numpy as np
from PIL import Image

from peerdescent.data.datasets import Dataset
from peerdescent.data.formats import census_file, labels_file, sheet_file, text_file

CIFAR_COUNT = 3


def digest(content):
    return hashlib.sha256(content).hexdigest()


def png(array):
    """Pictures (count, 32, 32, 3) as one sheet, a picture in each row."""
    stream = io.BytesIO()
    Image.fromarray(array.reshape(len(array), 32 * 32, 3)).save(stream, "PNG")
    return stream.getvalue()


def tiny_cifar(seed=0):
    """A data set of six sheets of three pictures, its files, and the pictures by file."""
    draw = np.random.default_rng(seed)
    names = [*(f"data_batch_{i}.png" for i in range(1, 6)), "test_batch.png"]
    pictures = {name: draw.integers(0, 256, (CIFAR_COUNT, 32, 32, 3)).astype(np.uint8) for name in names}
    content = {name: png(array) for name, array in pictures.items()}
    labels = {"train_lables.json": 5 * CIFAR_COUNT, "test_lables.json": CIFAR_COUNT}
    for name, count in labels.items():
        content[name] = json.dumps([(7 * i + 6) % 10 for i in range(count)]).encode()
    files = [sheet_file(name, len(content[name]), digest(content[name]), CIFAR_COUNT) for name in names]
    files += [labels_file(name, len(content[name]), digest(content[name]), count) for name, count in labels.items()]
    return Dataset("cifar10", tuple(files)), content, pictures


PERSON = (
    "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, 2174, 0, 40, "
    "United-States, <=50K"
)
SECOND = (
    "52, Private, 209642, HS-grad, 9, Married-civ-spouse, Exec-managerial, Husband, Black, Female, 0, 0, 45, Cuba, >50K"
)
INCOMPLETE = "18, ?, 103497, Some-college, 10, Never-married, ?, Own-child, White, Female, 0, 0, 30, Peru, <=50K"


def tiny_adult(rows=40):
    """A data set of `rows` complete people and one incomplete one for training, and three for testing."""
    draw = np.random.default_rng(0)
    jobs, schools = ("Sales", "Craft-repair", "Tech-support"), ("HS-grad", "Bachelors")
    people = [
        f"{draw.integers(17, 80)}, Private, {draw.integers(10**5)}, {schools[i % 2]}, 9, Divorced, {jobs[i % 5 % 3]}, "
        f"Husband, White, {'Male' if i % 2 else 'Female'}, 0, 0, {draw.integers(10, 60)}, Cuba, "
        f"{'>50K' if i % 4 == 1 else '<=50K'}"
        for i in range(rows)
    ]
    train = "\n".join([*people, INCOMPLETE, ""])
    test = "\n".join(["|1x3 Cross validator", f"{PERSON}.", f"{INCOMPLETE}.", f"{SECOND}.", ""])
    content = {"adult.data": train.encode(), "adult.test": test.encode()}
    counts = {"adult.data": rows + 1, "adult.test": 3}
    files = (census_file(name, len(data), digest(data), counts[name]) for name, data in content.items())
    return Dataset("adult", tuple(files)), content


PLAY = """HAMLET

PERSONS REPRESENTED.

Hamlet, a prince.
Ophelia.

ACT I.

SCENE I. Elsinore.

[Enter Hamlet and
Ophelia.]

Ham.
To be, or not to be: [Aside.] that is
  the question.

Oph.
My lord!

[Exit.]

Farewell.
I go.

Enter a Clown

Ham.
Well.

OPH.
Good night, ladies.
"""
OTHER_PLAY = "ACT II\n\nTHESEUS\nNow, fair Hippolyta!\n\nHIPPOLYTA\nFour days.\n\nTHESEUS\n   Go.\n\nHIPPOLYTA\nSo."


def tiny_plays(repeat=1):
    """Two plays; `repeat` makes the first one longer."""
    lines = "\n\n".join(["Ham.\nWords, words, words.", "Oph.\nAy."] * (repeat - 1))
    content = {"hamlet_gut.txt": f"{PLAY}\n{lines}\n".encode(), "midsummer_nights_dream_gut.txt": OTHER_PLAY.encode()}
    files = (text_file(name, len(data), digest(data)) for name, data in content.items())
    return Dataset("shakespeare", tuple(files)), content
