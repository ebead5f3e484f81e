"""TOML from anywhere: what would take the parser for ever, or too deep, is refused."""

from __future__ import annotations

import pytest

from peerdescent import InputError
from peerdescent._util import toml

PARTS = 100_000


@pytest.mark.parametrize(
    "text",
    [
        ".".join(["a"] * PARTS) + " = 1",
        " . ".join(['"a"'] * PARTS) + " = 1",
        "[" + ".".join(["a"] * PARTS) + "]",
        "x = {" + ".".join(["a"] * PARTS) + " = 1}",
        "x = " + "[" * PARTS,
        "x = " + "{a = " * PARTS,
        "x = " + "9" * PARTS,
        '"' * PARTS,
        "'''" * PARTS,
        'x = "' + "\\\\" * PARTS,
    ],
    ids=lambda text: text[:12],
)
def test_hostile_text_is_one_short_sentence(text: str) -> None:
    with pytest.raises(InputError, match=r"^a\.toml ") as error:
        toml.loads(text, "a.toml")
    assert len(str(error.value)) < 300


def test_long_values_are_read() -> None:
    dots = "." * 100
    text = f"a = '{dots}'\nb = '''\n{dots}\n'''\nc = [{'1.5, ' * 1000}]\n# {'a.' * 100}\nd.e.f = \"{'a.' * 100}\""
    found = toml.loads(text, "a.toml")
    assert found["a"] == found["b"].strip() == dots
    assert len(found["c"]) == 1000
    assert found["d"]["e"]["f"] == "a." * 100
