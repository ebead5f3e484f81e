"""What a network file says: links, sites, connections of agents, computing times. Times in ms, rates in Mbit/s.

The tables are schemas, so that a wrong value, an unknown key or a missing number is refused in one sentence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from peerdescent._util.schema import LARGEST, Schema, about, settings_of
from peerdescent._util.validation import described, did_you_mean
from peerdescent.clock.agent_lists import Agents, Pair, agents_of, pair_of
from peerdescent.errors import InputError

_RATE: dict[str, Any] = {"gt": 0, "le": LARGEST}
_TIME: dict[str, Any] = {"ge": 0, "le": LARGEST}


class Link(Schema, frozen=True, kw_only=True):
    """One direction of a connection between two agents; what is None is as in the next more general table."""

    latency_ms: Annotated[float | None, about("From leaving one agent to reaching the other.", **_TIME)] = None
    bandwidth_mbit: Annotated[float | None, about("Mbit/s; no limit unless given.", **_RATE)] = None
    overhead_ms: Annotated[float | None, about("The sender is busy so long with each message.", **_TIME)] = None


class Access(Schema, frozen=True, kw_only=True):
    """The connection of an agent, a site or a server to the rest, which its messages share equally."""

    uplink_mbit: Annotated[float | None, about("What it sends, in Mbit/s; no limit unless given.", **_RATE)] = None
    downlink_mbit: Annotated[float | None, about("What it receives, in Mbit/s; no limit unless given.", **_RATE)] = None


class Between(Link, frozen=True, kw_only=True):
    """Links between sites, and the connection that a site's agents share for them."""

    uplink_mbit: Annotated[float | None, about("Of a site to all others, shared.", **_RATE)] = None
    downlink_mbit: Annotated[float | None, about("Of all others to a site, shared.", **_RATE)] = None


class Compute(Schema, frozen=True, kw_only=True):
    """The time an agent computes per iteration; with two gradients per iteration, twice as long."""

    seconds: Annotated[float | None, about("Seconds per iteration with one gradient.", **_TIME)] = None
    relative: Annotated[float | None, about("Times the seconds that the run itself took per agent.", **_TIME)] = None
    spread: Annotated[Literal["none", "lognormal", "gamma"], about("How iterations differ.")] = "none"
    deviation: Annotated[float, about("Standard deviation, as a fraction of the mean.", **_TIME)] = 0.0


class Stragglers(Schema, frozen=True, kw_only=True):
    """Iterations of some agents that take longer than others."""

    probability: Annotated[float, about("Per agent and iteration.", ge=0, le=1)] = 0.0
    factor: Annotated[float, about("How many times longer.", ge=1, le=LARGEST)] = 1.0


class Average(Access, frozen=True, kw_only=True):
    """How the mean over all agents is computed where a method needs it; the connection is the server's."""

    by: Annotated[Literal["all_reduce", "server"], about("A ring all_reduce, or a parameter server.")] = "all_reduce"
    latency_ms: Annotated[float | None, about("Between an agent and the server.", **_TIME)] = None


@dataclass(frozen=True)
class NetworkModel:
    """A network, for any number of agents.

    Args:
        name: what messages and tables call it.
        title: one line about it.
        link: every link, unless a table below says otherwise.
        agent: the connection of every agent.
        sites: groups of agents, by name.
        within: links inside a site.
        between: links between sites.
        links: single links, by (sender, receiver).
        compute: computing time.
        factors: how many times longer some agents compute.
        stragglers: iterations that take longer.
        straggling: the agents they happen to; None for all.
        average: how means over all agents are computed.
    """

    name: str = "network"
    title: str = ""
    link: Link = field(default_factory=Link)
    agent: Access = field(default_factory=Access)
    sites: Mapping[str, Agents] = field(default_factory=dict)
    within: Link = field(default_factory=Link)
    between: Between = field(default_factory=Between)
    links: Mapping[Pair, Link] = field(default_factory=dict)
    compute: Compute = field(default_factory=lambda: Compute(seconds=0.0))
    factors: tuple[tuple[Agents, float], ...] = ()
    stragglers: Stragglers = field(default_factory=Stragglers)
    straggling: Agents | None = None
    average: Average = field(default_factory=Average)

    def check(self, n: int) -> None:
        """Refuse a model that names agents which a run of n agents does not have, or leaves some without a site."""
        named = {agent for site in self.sites.values() for agent in site}
        others = {agent for pair in self.links for agent in pair} | {a for agents, _ in self.factors for a in agents}
        beyond = max({*named, *others, *(self.straggling or ())}, default=0)
        if beyond >= n:
            raise InputError(f"{self.name} names agent {beyond}, and there are {n} agents, 0 to {n - 1}: change one.")
        if self.sites and (outside := sorted(set(range(n)) - named)):
            raise InputError(
                f"{self.name}: agent {outside[0]} is in no site: add it to one of {', '.join(self.sites)}."
            )

    def as_keys(self) -> dict[str, Any]:
        """What is given, as the keys of a file; `from_keys` makes the same model of them."""
        tables = {name: _given(getattr(self, name)) for name in _TABLES}
        if self.factors:
            tables["compute"]["factors"] = {_text(agents): factor for agents, factor in self.factors}
        if self.straggling is not None:
            tables["stragglers"]["agents"] = list(self.straggling)
        keys: dict[str, Any] = {"title": self.title, **tables}
        keys["sites"] = {name: list(agents) for name, agents in self.sites.items()}
        keys["links"] = {f"{i}>{j}": _given(link) for (i, j), link in self.links.items()}
        return {key: value for key, value in keys.items() if value}

    def scaled(self, bandwidth: float = 1.0, latency: float = 1.0) -> NetworkModel:
        """The same network with all rates and all latencies multiplied.

        >>> NetworkModel(link=Link(latency_ms=20, bandwidth_mbit=100)).scaled(bandwidth=0.5).link.bandwidth_mbit
        50.0
        """
        factors = {"latency_ms": latency, "bandwidth_mbit": bandwidth}
        factors |= {"uplink_mbit": bandwidth, "downlink_mbit": bandwidth}

        def scale(table: _Table) -> _Table:
            known = {name: getattr(table, name, None) for name in factors}
            return table.replace(**{name: v * factors[name] for name, v in known.items() if v is not None})

        tables = {name: scale(getattr(self, name)) for name in ("link", "agent", "within", "between", "average")}
        return replace(self, links={pair: scale(link) for pair, link in self.links.items()}, **tables)


_Table = TypeVar("_Table", bound=Schema)
_TABLES: dict[str, type[Schema]] = {
    "link": Link,
    "agent": Access,
    "within": Link,
    "between": Between,
    "compute": Compute,
    "stragglers": Stragglers,
    "average": Average,
}
_KEYS = ("title", *_TABLES, "sites", "links")


def from_keys(keys: Mapping[str, Any], name: str = "network") -> NetworkModel:
    """A network from the keys of a file; anything wrong is refused in one sentence that names the table.

    >>> from_keys({"link": {"latency_ms": 20, "bandwith_mbit": 100}, "compute": {"seconds": 0.1}}, "wan.toml")
    Traceback (most recent call last):
        ...
    peerdescent.errors.InputError: wan.toml has an unknown key 'link.bandwith_mbit' (did you mean 'bandwidth_mbit'?).
    """
    for key in keys:
        if key not in _KEYS:
            raise InputError(f"{name} has an unknown key {_short(key)}{did_you_mean(key, _KEYS)}.")
    title = keys.get("title", "")
    if not isinstance(title, str):
        raise InputError(f"{name}: title = {described(title)}: expected a text.")
    given = {table: dict(_dict(keys.get(table, {}), table, name)) for table in (*_TABLES, "sites", "links")}
    factors = _dict(given["compute"].pop("factors", {}), "compute.factors", name)
    straggling = given["stragglers"].pop("agents", None)
    tables: dict[str, Any] = {table: _read(schema, given[table], table, name) for table, schema in _TABLES.items()}
    links: dict[Pair, Link] = {}
    for text, values in given["links"].items():
        link = _read(Link, _dict(values, f"links.{text}", name), f"links.{text}", name)
        links.update(dict.fromkeys(pair_of(text, f"{name}: links"), link))
    model = NetworkModel(
        name,
        title,
        sites={site: agents_of(value, f"{name}: sites.{site}") for site, value in given["sites"].items()},
        links=links,
        factors=tuple(_factor(agents, value, name) for agents, value in factors.items()),
        straggling=None if straggling is None else agents_of(straggling, f"{name}: stragglers.agents"),
        **tables,
    )
    _check_together(model)
    return model


def _check_together(model: NetworkModel) -> None:
    """Refuse keys that contradict each other or would have no effect."""
    compute, name = model.compute, model.name
    if (compute.seconds is None) == (compute.relative is None):
        raise InputError(f"{name}: give one of compute.seconds and compute.relative.")
    if (compute.spread == "none") != (compute.deviation == 0):
        raise InputError(f"{name}: compute.spread and compute.deviation have an effect only together: give both.")
    if not model.sites and (model.within != Link() or model.between != Between()):
        raise InputError(f"{name} has a table for links within or between sites, and no [sites]: list their agents.")
    if model.average.by == "all_reduce" and model.average != Average():
        raise InputError(f'{name}: the table [average] describes a server: add by = "server".')
    slow = model.straggling is not None or model.stragglers.factor != 1
    if slow != (model.stragglers.probability > 0):
        raise InputError(f"{name}: stragglers need a probability above 0 and a factor above 1: give both.")
    seen: dict[int, str] = {}
    for site, agents in model.sites.items():
        for agent in agents:
            if agent in seen:
                raise InputError(f"{name}: agent {agent} is in the sites {seen[agent]} and {site}: keep one.")
            seen[agent] = site


def _read(schema: type[_Table], values: Mapping[str, Any], table: str, name: str) -> _Table:
    known = [setting.name for setting in settings_of(schema)]
    for key in values:
        if key not in known:
            raise InputError(f"{name} has an unknown key {_short(f'{table}.{key}')}{did_you_mean(key, known)}.")
    try:
        return schema(**values)
    except InputError as error:
        raise InputError(f"{name}: {table}.{error}") from None


def _dict(value: Any, table: str, name: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InputError(f"{name}: {table} = {described(value)}: expected a table.")
    return value


def _factor(agents: str, value: Any, name: str) -> tuple[Agents, float]:
    where = f"{name}: compute.factors"
    try:
        factor = msgspec.convert(value, Annotated[float, msgspec.Meta(gt=0, le=LARGEST)])
    except msgspec.ValidationError:
        text = f"{where}.{agents} = {described(value)}: expected a number greater than 0."
        raise InputError(text) from None
    return agents_of(agents, where), factor


def _given(table: Schema) -> dict[str, Any]:
    known = {setting.name: setting.default for setting in settings_of(type(table))}
    return {name: value for name, value in table.asdict().items() if value != known[name]}


def _text(agents: Agents) -> str:
    return ",".join(map(str, agents))


def _short(key: object) -> str:
    text = str(key)
    return repr(text if len(text) <= 60 else f"{text[:60]}…")
