"""A transformer that predicts the next character of speeches or plays; an agent may read one speaker or role."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from peerdescent._util.validation import check_choice, check_integer
from peerdescent.data import partition as make_partition
from peerdescent.data import shakespeare, sotu
from peerdescent.errors import InputError
from peerdescent.problems.named import NamedProblem, shuffled
from peerdescent.problems.networks import CharacterTransformer, next_character_loss, transformer_parameters

Codes = NDArray[np.int64]
_TRAINING = 0.9  # of what a speaker says; the rest is test data


@dataclass(frozen=True)
class Speaker:
    """What one speaker says, and the groups that the speaker belongs to."""

    text: str
    groups: dict[str, str]


def _presidents() -> list[Speaker]:
    said = sotu().items()
    return [Speaker(" ".join(s.text for s in made), {"speaker": name, "party": made[0].party}) for name, made in said]


def _roles() -> list[Speaker]:
    return [
        Speaker("\n".join(role.speeches), {"role": f"{role.name} in {role.play}", "play": role.play})
        for role in shakespeare()
    ]


SPEAKERS: dict[str, Callable[[], list[Speaker]]] = {"sotu": _presidents, "shakespeare": _roles}


def char_transformer(
    agents: int = 10,
    partition: str = "iid",
    source: str = "sotu",
    speakers: int = 0,
    context: int = 64,
    width: int = 64,
    layers: int = 2,
    heads: int = 4,
    start: str = "shared",
    sizes: str = "even",
    evaluated: int = 1000,
    tested: int = 1000,
    seed: int = 0,
) -> NamedProblem:
    """Return a transformer that predicts the next character of what some speakers say.

    The texts are those of the speakers who say most. A sample is a passage of `context` characters with the ones that
    follow them; the last tenth of every speaker's text is test data. Labels are speakers.

    Args:
        agents: n; each has a part of the passages.
        partition: "iid", "label" (sorted by speaker), "dirichlet:A", or "by:speaker" and "by:party" for sotu, "by:role"
            and "by:play" for shakespeare.
        source: "sotu" (presidents) or "shakespeare" (roles of plays); both are fetched.
        speakers: how many; 0 for as many as there are agents, so that "by:speaker" gives one to each.
        context: characters that the model sees.
        width: the length of a character's vector, a multiple of heads.
        layers: blocks of attention.
        heads: of each block.
        start: "shared" or "independent".
        sizes: "even" or "uneven".
        evaluated: training passages for evaluating loss and gradient norm; 0 for all.
        tested: test passages, evenly spaced over the test data; 0 for all.
        seed: determines the partition.
    """
    check_choice("source", source, SPEAKERS)
    agents = check_integer("agents", agents, 1)
    check_integer("speakers", speakers, 0)
    check_integer("tested", tested, 0)
    build = partial(CharacterTransformer, width, layers, heads, context)
    transformer_parameters(width, layers, heads, context)  # wrong options are refused before the texts are read
    chosen = _most(SPEAKERS[source](), speakers, agents, context)
    cut = [_passages(speaker.text, context) for speaker in chosen]
    label = np.repeat(np.arange(len(cut)), [len(train) for train, _ in cut])
    groups = {key: np.array([speaker.groups[key] for speaker in chosen])[label] for key in chosen[0].groups}
    shards = shuffled(make_partition(label, agents, partition, seed, sizes, groups), seed)
    train, test = (np.concatenate([passages[part] for passages in cut]) for part in (0, 1))
    if 0 < tested < len(test):
        test = test[np.linspace(0, len(test) - 1, tested).astype(np.int64)]
    return NamedProblem(
        "char-transformer", build, next_character_loss, _pair(train), shards, _pair(test), start, evaluated
    )


def encoded(text: str) -> Codes:
    """Return the numbers of the characters; those that the model does not know are read as a space, which is 0.

    >>> encoded("A\\n~é").tolist()
    [33, 0, 94, 0]
    """
    codes = np.frombuffer(text.encode("utf-32-le"), dtype="<u4").astype(np.int64) - 32
    return np.where((codes >= 0) & (codes < 95), codes, 0)


def _most(known: list[Speaker], speakers: int, agents: int, context: int) -> list[Speaker]:
    """Return the speakers who say most; each must say enough for passages of both kinds."""
    enough = [speaker for speaker in known if len(speaker.text) * (1 - _TRAINING) > context + 1]
    if not speakers:
        speakers = min(agents, len(enough))
    if not 0 < speakers <= len(enough):
        raise InputError(
            f"speakers = {speakers}: expected at most {len(enough)}, who say enough for a context of {context}."
        )
    return sorted(enough, key=lambda speaker: -len(speaker.text))[:speakers]


def _passages(text: str, context: int) -> tuple[Codes, Codes]:
    """Cut a text into passages of context + 1 characters, the last of which begins the next passage."""
    codes = encoded(text)
    end = int(len(codes) * _TRAINING)
    return _windows(codes[:end], context), _windows(codes[end:], context)


def _windows(codes: Codes, context: int) -> Codes:
    begin = np.arange(0, len(codes) - context, context)
    windows: Codes = codes[begin[:, None] + np.arange(context + 1)]
    return windows


def _pair(passages: Codes) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.from_numpy(passages[:, :-1].copy()), torch.from_numpy(passages[:, 1:].copy())
