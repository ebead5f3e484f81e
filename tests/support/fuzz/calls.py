"""Calls of the Python interface with one or two wrong arguments; only errors of peerdescent may come back."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from tests.support.fuzz import graphs
from tests.support.fuzz.bases import copy_cache
from tests.support.fuzz.cases import Case
from tests.support.fuzz.commands import METHODS, RATES
from tests.support.fuzz.values import EDGES, NASTY, SMALL, varied

Expressions = Mapping[str, Sequence[str]]
SIZES = ("4", "1", "2", "8")
AGENTS = ("4", "4", "2", "10")
KINDS = ("'metropolis'", "'unit'", "'lazy'", "'uniform'", "'metropolis:0.5'")
GRAPH = ("'ring:4'", "'ring:4'", "graphs.ring(4)", "nx.path_graph(4)", "'complete:4'", "'star:4'", "'path:1'")
METHOD = (*(f"'{name}'" for name in METHODS), *(f"algorithms.make('{name}')" for name in METHODS[:4]))
MADE = tuple(f"algorithms.make('{name}')" for name in METHODS)
QUADRATIC = ("problems.quadratic(4, 3)", "problems.Quadratic([[1.0]] * 4, [[0.0], [0.0], [1.0], [2.0]])")
SUPERVISED = (
    "problems.supervised(net(), cross_entropy, classes(), 4)",
    "problems.supervised(net(3, 1), mse_loss, numbers(), 4)",
    "problems.supervised(net(5), cross_entropy, classes(), 4)",
    "problems.supervised(FailingForward(), mse_loss, numbers(), 4)",
    "problems.supervised(TwoInputs(), mse_loss, numbers(), 4)",
    "problems.supervised(net(), cross_entropy, classes(most=9), 4)",
    "problems.supervised(net(), vector_loss, classes(), 4)",
    "problems.supervised(net(), failing_loss, classes(), 4)",
    "problems.supervised(net(3, 1), mse_loss, (both() * float('nan'), both()), 4)",
)
OWN = ("NoReturn()", "NoYield()", "UnknownState()", "WrongShape()", "NoReturn", "object()")
DATA = (
    *("classes()", "TensorDataset(*classes())", "DataLoader(TensorDataset(*classes()))", "Ragged()", "Listed()"),
    *(
        "Endless()",
        "[Subset(TensorDataset(*classes()), range(10))] * 4",
        "(classes(), classes())",
        "((both(), both()), both())",
    ),
    *(
        "(both(), both(7))",
        "(both(0), both(0))",
        "both()",
        "(both().numpy(), classes()[1].numpy())",
        "classes(1)",
        "classes(3)",
    ),
)
RATE = (*(f"'{rate}'" for rate in RATES), "0.1", "lambda k: 0.1", "schedules.Cosine(0.1, 10)", "lambda k: 'x'")
SETTINGS: Expressions = {
    "iterations": ("3", "0", "5"),
    "batch_size": ("0", "2", "100", "10**12"),
    "seed": ("0", "1", "2**63"),
    "replacement": ("True", "False"),
    "eval_every": ("1", "None", "100"),
    "laplacian": (*KINDS, "'matched'"),
    "mixing": KINDS,
    "communication_period": ("1", "2", "10**9", "'3,1@2'", "'2,@'"),
    "message_dtype": ("'bf16'", "'same'"),
    "dtype": ("'float64'", "'float32'", "torch.float32"),
    "device": ("'cpu'", "'meta'", "'cuda'", "torch.device('cpu')", "'hpu'"),
    "threads": ("1", "None", "100000"),
    "gradients": ("'loop'", "'stacked'", "'auto'"),
}
TRAIN: Expressions = {
    **SETTINGS,
    "x0": (
        "None",
        "torch.zeros(3)",
        "torch.zeros(4, 3)",
        "torch.full((4, 3), float('nan'))",
        "'zeros'",
        "[0.0] * 3",
        "1",
    ),
    "out": ("None", "'out'", "'a/b'"),
    "callbacks": ("()", "[peerdescent.Callback()]", "[1]", "peerdescent.Callback()"),
    "resume": ("True", "False"),
    "overwrite": ("True",),
    "workers": ("1", "0", "99"),
    "on_loss": ("'stop'", "'restart'"),
    "kill": ("()", "['0@1']", "'x'"),
    "stall": ("()", "['0@1:0']", "[1]"),
}
REQUIRED: dict[str, Expressions] = {
    "train": {
        "problem": ("'quadratic'", *QUADRATIC, *SUPERVISED),
        "graph": GRAPH,
        "algorithm": (*METHOD, *OWN),
        "iterations": ("3",),
        "kernel": ("'plain'",),
    },
    "explain": {"problem": ("'quadratic'", *QUADRATIC), "graph": GRAPH, "algorithm": METHOD},
    "load": {"path": ("'missing'", "'.'", "'run'", "pathlib.Path('.')")},
    "graphs.ring": {"n": SIZES},
    "graphs.grid": {"rows": SIZES, "columns": SIZES},
    "graphs.erdos_renyi": {"n": SIZES, "probability": ("0.5", "1")},
    "graphs.regular": {"n": ("8", "6"), "degree": ("3", "2")},
    "graphs.geometric": {"n": SIZES, "radius": ("0.9", "2")},
    "graphs.watts_strogatz": {"n": ("8", "6"), "k": ("2", "4"), "probability": ("0.1",)},
    "graphs.barabasi_albert": {"n": ("8", "6"), "m": ("2", "1")},
    "graphs.hypercube": {"dimension": SIZES},
    "graphs.Graph": {"n": ("3", "2"), "edges": ("((0, 1), (1, 2))", "[(0, 1)]", "'01'", "[(0, 0)]", "[(0, 9)]")},
    "graphs.as_graph": {"graph": GRAPH},
    "graphs.from_networkx": {
        "g": ("nx.path_graph(3)", "nx.DiGraph([(0, 1)])", "nx.MultiGraph([(0, 1)] * 2)", "nx.Graph()")
    },
    "graphs.from_edge_list": {"text": ("'0-1,1-2'", "'0-1=1'")},
    "graphs.laplacian": {"graph": ("graphs.ring(4)",), "kind": KINDS},
    "graphs.mixing": {"graph": ("graphs.ring(4)",), "kind": KINDS},
    "problems.make": {"name": ("'quadratic'", "'ripples'", "'logistic-nonconvex'"), "agents": AGENTS},
    "problems.quadratic": {"agents": AGENTS},
    "problems.logistic_nonconvex": {"agents": AGENTS},
    "problems.Ripples": {"agents": AGENTS},
    "problems.Quadratic": {
        "A": ("[[1.0]] * 3", "np.ones((3, 2))", "np.eye(2)", "'x'"),
        "c": ("[[0.0]] * 3", "np.ones(3)"),
    },
    "problems.supervised": {"model": ("net()", "net(5)", "FailingForward()"), "loss": ("cross_entropy",), "data": DATA},
    "algorithms.make": {"name": tuple(f"'{name}'" for name in METHODS)},
    "algorithms.DSGPA": {"eta": RATE, "alpha": RATE, "beta": RATE},
    "algorithms.DSGD1": {"eta": RATE},
    "schedules.parse": {"value": RATE, "name": ("'eta'",)},
    "schedules.Cosine": {"base": ("0.1",), "iterations": ("10",)},
    "schedules.Step": {"base": ("0.1",), "factor": ("0.5",), "milestones": ("(5, 10)",)},
    "schedules.Warmup": {"iterations": ("5",), "rest": ("0.1", "'cosine:0.1:20'")},
    "theory.stability": {"algorithm": MADE, "graph": GRAPH},
    "theory.stable_range": {"algorithm": MADE, "graph": GRAPH},
    "theory.nearest_stable": {"algorithm": MADE, "graph": GRAPH},
    "theory.stable_up_to": {"algorithm": MADE},
    "theory.recursion": {"algorithm": MADE, "laplacian": ("1.0",), "disagreement": ("0.5",)},
    "theory.fixed_point": {"algorithm": MADE, "problem": QUADRATIC, "graph": GRAPH},
    "theory.theorem1_parameters": {"graph": GRAPH, "iterations": ("100",)},
    "theory.theorem1_failing": {
        "algorithm": MADE,
        "rho": ("1.0",),
        "rho2": ("0.5",),
        "n": ("4",),
        "iterations": ("9",),
    },
    "theory.corrected_lemma1_bound": {"g": ("[1.0, 2.0]",), "gamma": ("0.5",)},
    "transforms.Powerball": {"gamma": ("0.5",)},
    "transforms.Clip": {"limit": ("1.0",)},
    "peerdescent.Settings": {},
    "peerdescent.Experiment": {},
}
_THEORY: Expressions = {
    "laplacian": KINDS,
    "mixing": KINDS,
    "communication_period": ("1", "3"),
    "curvature": ("0.0", "1.0"),
}
OPTIONAL: dict[str, Expressions] = {
    "train": TRAIN,
    "explain": SETTINGS,
    "load": {"problem": QUADRATIC},
    "problems.make": {
        "partition": ("'iid'",),
        "dimension": SIZES,
        "noise": ("1.0",),
        "samples": ("30",),
        "spread": ("1",),
    },
    "problems.quadratic": {"dimension": SIZES, "condition": ("10.0",), "noise": ("1.0",), "seed": ("1",)},
    "problems.logistic_nonconvex": {
        "partition": ("'label'",),
        "samples": ("50",),
        "dimension": SIZES,
        "sizes": ("'even'",),
    },
    "problems.Ripples": {"dimension": SIZES, "spread": ("1",), "noise": ("1",)},
    "problems.Quadratic": {"noise": ("1.0",), "start": ("[0.0]", "None")},
    "problems.supervised": {"agents": AGENTS, "partition": ("'iid'", "'label'"), "test": DATA, "start": ("'shared'",)},
    "algorithms.make": {"powerball": ("0.5",), "eta": RATE, "gamma": ("0.5",), "transform": ("transforms.Clip(1.0)",)},
    "algorithms.DSGPA": {"gamma": ("0.7",), "power_on": ("'direction'",), "dual": ("'jacobi'",), "epsilon": ("0.1",)},
    "algorithms.DSGD1": {"transform": ("transforms.Clip(1.0)",)},
    "graphs.Graph": {"weights": ("(1.0, 2.0)", "None"), "spec": ("'x'",)},
    "graphs.erdos_renyi": {"seed": ("1",)},
    "theory.stability": _THEORY,
    "theory.stable_range": {key: _THEORY[key] for key in ("laplacian", "mixing", "communication_period")},
    "theory.nearest_stable": {key: _THEORY[key] for key in ("laplacian", "mixing", "communication_period")},
    "theory.recursion": {"curvature": ("1.0",), "k": ("None", "3")},
    "peerdescent.Settings": SETTINGS,
    "peerdescent.Experiment": {
        **SETTINGS,
        "algorithms": ("('d2',)", "'d2'"),
        "set": ("{'eta': 0.1}", "{'a': {'b': {}}}"),
    },
}
WRONG = (
    *("None",) * 4,
    *("True", "False", "-1", "0", "1.5", "1e308", "np.nan", "np.inf", "-np.inf", "10**30", "2**63", "10**12"),
    *("''", "'x'", "b'x'", "[]", "()", "{}", "[None]", "{'a': 1}", "{'a': {'b': {}}}", "object()", "Strange()"),
    *("BadRepr()", "lambda k: k", "len", "int", "...", "1j", "Fraction(1, 3)", "np.float32(0.1)", "np.int64(3)"),
    *("np.array(['a'])", "np.array([1, 2])", "np.zeros(0)", "torch.tensor(0.1)", "torch.zeros(0)", "range(3)"),
    *("torch.zeros(2, 2, 2)", "torch.full((4, 3), np.nan)", "pathlib.Path('x')", "iter([1])", "{1, 2}", "'ring:6'"),
    *("'d2'", "net()", "graphs.ring(3)", "'é' * 300", "'x' * 100_000", "1e12", "-0.0", "5e-324", "'\\0'", "'\\udcff'"),
    "[[1.0], [2.0, 3.0]]",
)
WEIGHTS = {"train": 60, "explain": 6, "problems.supervised": 24, "algorithms.make": 6, "theory.stability": 5}
PRELUDE = "from tests.support.fuzz.objects import *; "


def make(r: random.Random) -> Case:
    """A call with some wrong arguments."""
    name = r.choices(list(REQUIRED), [WEIGHTS.get(name, 2) for name in REQUIRED])[0]
    needed, optional = REQUIRED[name], OPTIONAL.get(name, {})
    given = {key: r.choice(values) for key, values in needed.items()}
    for key in r.sample(list(optional), min(len(optional), r.choice((0, 1, 1, 2, 3)))):
        given[key] = r.choice(optional[key])
    for _ in range(r.choice((0, 1, 1, 1, 2))):
        _spoil(r, given, [*needed, *optional])
    call = f"{name}({', '.join(f'{key}={value}' for key, value in given.items())})"
    if name == "problems.supervised" and r.random() < 0.7:
        agents = given.get("agents", "10")
        settings = f"iterations=2, kernel='plain', gradients={r.choice(LOOPS)}"
        call = f"train({call}, 'complete:' + str({agents}), 'd-sgd-1', {settings})"
    return Case("calls", code=f"{PRELUDE}{call}", prepare=copy_cache)


LOOPS = ("'auto'", "'loop'", "'stacked'")


def _spoil(r: random.Random, given: dict[str, str], known: Sequence[str]) -> None:
    """Replace, drop or add an argument."""
    kind = r.random()
    if given and kind < 0.05:
        del given[r.choice(list(given))]
    elif kind < 0.1:
        given[r.choice(("x", "eta", "foo", "graph", "seed"))] = r.choice(WRONG)
    elif known:
        key = r.choice([key for key in known if key not in ("iterations", "kernel")] or known)
        given[key] = _wrong(r, key)


def _wrong(r: random.Random, key: str) -> str:
    kind = r.random()
    if kind < 0.75:
        return r.choice(WRONG)
    if key in ("graph", "spec") or kind < 0.8:
        return repr(graphs.spec(r))
    if kind < 0.9:
        return repr(varied(r, RATES))
    return repr(r.choice((*NASTY, *EDGES, *SMALL)))
