"""Streams (IterableDatasets): agents read them batch by batch, and again from the start to resume."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

from peerdescent.data.lazy import Place, Source, cut, of_agents, placed
from peerdescent.data.reading import EVALUATION_SEED, readable, reading_seed, seeded_reading
from peerdescent.data.shards import EVALUATED_AT_ONCE, Batches, Draw, ShardedData
from peerdescent.data.trees import Batch
from peerdescent.errors import InputError


class StreamSource(Source):
    """An IterableDataset of (inputs, targets), and how samples become a batch; see `Source`."""

    def __init__(self, dataset: Any, name: str, collate: Any = None, batch_size: int | None = None) -> None:
        self.dataset, self.name, self.collate, self.batch_size = dataset, name, collate, batch_size
        self.drop_last = False
        self.what = f"{name}: the stream {type(dataset).__name__}"


class Reader:
    """Reads a stream in order; one that ends starts again.

    >>> Reader(StreamSource([1, 2, 3], "data")).read(5)
    [1, 2, 3, 1, 2]
    """

    def __init__(self, source: StreamSource) -> None:
        self._source = source
        self._iterator: Iterator[Any] | None = None

    def read(self, count: int) -> list[Any]:
        """Return the next samples."""
        samples: list[Any] = []
        began = False
        while len(samples) < count:
            with readable(self._source.what):
                if self._iterator is None:
                    self._iterator, began = iter(self._source.dataset), True
                try:
                    samples.append(next(self._iterator))
                    began = False
                except StopIteration:
                    self._iterator = None
            if self._iterator is None and began:
                raise InputError(
                    f"{self._source.what} is empty, or can be read only once: each iter() must start anew and "
                    "give samples."
                )
        return samples


class StreamShards(ShardedData):
    """Samples in the order of streams, one for each agent, or one that is dealt to all of them.

    With streams s_1, …, s_n, each repeated end to end, iteration k of agent i takes samples kB, …, (k+1)B − 1 of s_i.
    With one stream s, agent i takes samples i, i+n, i+2n, … of it as s_i; then every process reads all of s.
    A run that is resumed at iteration k reads its samples again from the start.

    Args:
        sources: one for each agent, or one for all.
        agents: n.
    """

    endless = True

    def __init__(self, sources: Sequence[StreamSource], agents: int) -> None:
        self.sources, self.dealt = list(sources), len(sources) != agents or agents == 1
        self.total, self.agents, self.sizes = agents, agents, []
        self.places = list(range(agents))
        self.batch_size = sources[0].batch_size
        self.regular = all(source.regular for source in sources)
        self.place: Place | None = None
        self._evaluated: tuple[int, list[tuple[float, Batch]]] = (0, [])

    def source(self, agent: int) -> StreamSource:
        """Return where an agent's samples come from."""
        return self.sources[0 if self.dealt else self.places[agent]]

    def few(self, agent: int, count: int) -> Batch:
        """Return the first samples of an agent."""
        source, place = self.source(agent), self.places[agent]
        with seeded_reading() as seed:
            seed(EVALUATION_SEED)
            samples = Reader(source).read(count * (self.total if self.dealt else 1))
            own = samples[place :: self.total] if self.dealt else samples
            return placed(source.batch(own, range(count)), self.place, f"the data of agent {place}")

    def batches(self, draw: Draw) -> Batches:
        """Return the batches of streams, fastest for consecutive iterations."""
        return Batches(_StreamBatches(self, draw), draw.stacked)

    def parts(self, evaluated: int) -> list[tuple[float, Batch]]:
        """Return the first samples of every stream, which are read once and kept."""
        if self._evaluated[0] != evaluated:
            self._evaluated = evaluated, list(self._first_chunks(max(1, evaluated // self.agents)))
        return self._evaluated[1]

    def _first_chunks(self, each: int) -> Iterator[tuple[float, Batch]]:
        dealt: list[Any] = []
        for agent, place in enumerate(self.places):
            source = self.source(agent)
            with seeded_reading() as seed:
                seed(reading_seed(EVALUATION_SEED, 0 if self.dealt else place, 0, "evaluated data"))
                if self.dealt and not dealt:
                    dealt = Reader(source).read(each * self.total)
                samples = dealt[place :: self.total] if self.dealt else Reader(source).read(each)
                for rows in cut(np.arange(each), source.evaluated_at_once):
                    seed(reading_seed(EVALUATION_SEED, place, int(rows[0]), "evaluated collate"))
                    batch = source.batch([samples[i] for i in rows], rows.tolist())
                    yield len(rows) / each / self.agents, placed(batch, self.place, f"the data of agent {place}")

    def subset(self, agents: Sequence[int]) -> StreamShards:
        """Return the streams of some of the agents, each with the samples it had."""
        new = copy.copy(self)
        new.places, new.agents = [self.places[agent] for agent in agents], len(agents)
        new._evaluated = (0, [])
        return new

    def to(self, device: torch.device, dtype: torch.dtype) -> StreamShards:
        """Return the streams, with batches on a device and real numbers in a precision."""
        new = copy.copy(self)
        new.place, new._evaluated = (device, dtype), (0, [])
        return new

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_evaluated": (0, [])}  # other processes read it themselves


class FiniteStream:
    """Test data from a stream, read in every evaluation.

    Args:
        source: a stream whose data set has a length.
        length: how many samples are read.
    """

    def __init__(self, source: StreamSource, length: int) -> None:
        self.source, self.length = source, length
        self.place: Place | None = None

    def __iter__(self) -> Iterator[Batch]:
        reader = Reader(self.source)
        for i, rows in enumerate(cut(np.arange(self.length), self.source.batch_size or EVALUATED_AT_ONCE)):
            with seeded_reading() as seed:
                seed(reading_seed(EVALUATION_SEED, 0, i, "evaluated data"))
                batch = self.source.batch(reader.read(len(rows)), rows.tolist())
            yield placed(batch, self.place, "the test data")

    def to(self, device: torch.device, dtype: torch.dtype) -> FiniteStream:
        """Return the same samples on a device, with real numbers in a precision."""
        new = FiniteStream(self.source, self.length)
        new.place = device, dtype
        return new


class _StreamBatches:
    """The batches of streams: a function of k, since reading starts again for an earlier iteration."""

    def __init__(self, data: StreamShards, draw: Draw) -> None:
        assert draw.batch_size is not None
        self.data, self.draw, self.batch_size = data, draw, draw.batch_size
        self._readers: list[Reader] = []
        self._done = 0
        self._last: tuple[Any, Any] | None = None

    def __call__(self, k: int) -> tuple[Any, Any]:
        if self._last is not None and k == self._done - 1:
            return self._last
        if k < self._done or not self._readers:
            data, agents = self.data, self.draw.agents
            self._readers, self._done = [Reader(data.source(a)) for a in (agents[:1] if data.dealt else agents)], 0
        with seeded_reading() as seed:
            while self._done < k:
                self._read(seed)
            self._last = self._batch(self._read(seed), k, seed)
        return self._last

    def _read(self, seed: Any) -> list[list[Any]]:
        """Return the samples of the next iteration, by reader."""
        draw, dealt = self.draw, self.data.dealt
        each = self.batch_size * (self.data.total if dealt else 1)
        samples = []
        for reader, agent in zip(self._readers, draw.agents, strict=False):
            # What is dealt must not depend on who is hosted here.
            seed(reading_seed(draw.seed, 0 if dealt else draw.numbers[agent], self._done))
            samples.append(reader.read(each))
        self._done += 1
        return samples

    def _batch(self, samples: list[list[Any]], k: int, seed: Any) -> tuple[Any, Any]:
        draw, data, pairs = self.draw, self.data, []
        for i, agent in enumerate(draw.agents):
            own = samples[0][data.places[agent] :: data.total] if data.dealt else samples[i]
            seed(reading_seed(draw.seed, draw.numbers[agent], k, "collate"))
            first = k * self.batch_size
            batch = data.source(agent).batch(own, range(first, first + len(own)))
            pairs.append(placed(batch, data.place, f"the data of agent {draw.numbers[agent]}"))
        return of_agents(pairs, draw.stacked)
