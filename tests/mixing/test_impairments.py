"""The texts of impairments: what they mean, and one sentence for those that mean nothing."""

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from peerdescent.errors import InputError
from peerdescent.mixing.chance import Bursts, Independent, Turns
from peerdescent.mixing.impairments import Drop, parse_drop, parse_inactive


def test_texts_and_what_they_mean():
    assert parse_drop("0.1") == Drop(Independent(0.1))
    assert parse_drop(" 0.1 : one-sided ") == Drop(Independent(0.1), True)
    assert parse_drop("gilbert:.05:.2") == Drop(Bursts(0.05, 0.2))
    assert parse_drop("gilbert:.05:.2:.5:one-sided") == Drop(Bursts(0.05, 0.2, 0.5), True)
    assert parse_inactive("0.2") == Independent(0.2)
    assert parse_inactive("markov:.1:.3") == Bursts(0.1, 0.3)
    assert parse_inactive("cyclic:10:3") == Turns(10, 3)


@pytest.mark.parametrize("text", ["", "1", "-0.1", "nan", "often", "0.1:0.2", "gilbert", "gilbert:.1", "gilbert:0:.1",
                                  "gilbert:.1:2", "gilbert:.1:.1:0", "gilbert:.1:.1:1:1", "one-sided", "markov:.1:.1",
                                  "0.1:both", "uniform:0.1", None, 0.1, []])  # fmt: skip
def test_a_wrong_drop_gets_a_sentence(text):
    with pytest.raises(InputError, match=r"^drop = .*[:,] .*\.$"):
        parse_drop(text)


@pytest.mark.parametrize("text", ["", "1", "2", "inf", "markov:.1", "markov:.1:0", "cyclic:3:3", "cyclic:3:0",
                                  "cyclic:0:0", "cyclic:2.5:1", "cyclic:²:1", "cyclic:-3:1", "cyclic:9999999999:1",
                                  f"cyclic:{'9' * 6000}:1", "0.1:one-sided", None, 3])  # fmt: skip
def test_wrong_inactivity_gets_a_sentence(text):
    with pytest.raises(InputError, match=r"^inactive = .*[:,] .*\.$"):
        parse_inactive(text)


PIECES = st.sampled_from(
    ["gilbert", "markov", "cyclic", "one-sided", "0.1", "1", "1e400", "3", "", " ", "٣", "0x1", "1_0"]
)


@settings(deadline=None, max_examples=60)
@given(st.one_of(st.text(), st.lists(PIECES, max_size=6).map(":".join)))
@example("1_0")
@example("cyclic:1_0:3")
def test_any_text_is_understood_or_refused_in_one_sentence(text):
    for parse in (parse_drop, parse_inactive):
        assert re.fullmatch(r"(drop|inactive) = .*[:,] .*\.|", _refusal(parse, text))


def _refusal(parse, text):
    try:
        parse(text)
    except InputError as error:
        return str(error)
    return ""
