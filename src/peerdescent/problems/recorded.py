"""A gradient recorded once as a list of tensor operations, and replayed without module, autograd and vmap.

A replay calls the same operations on tensors of the same shapes in the same order, so it has the same bits as what was
recorded; each recording is compared with its original, bit for bit, before it is used.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule

Gradient = Callable[..., Sequence[torch.Tensor]]
"""From points, inputs and targets to one gradient per parameter."""
CALLS = 200
"""Calls with the same shapes before one is recorded: recording takes as long as some hundred of them."""
MOST = 8
"""Recordings per problem: shards of many sizes would spend their time recording."""
POOLED_CHANNELS, POOLED_NUMBERS = 8, 2**14
"""From these sizes on, max pooling is several times faster with the channels last, conversions included."""


class Recordings:
    """The recorded gradients of a problem, by the shapes of what they are called with.

    Copies of a problem share them; another process starts without any.
    """

    def __init__(self) -> None:
        self._calls: dict[Any, int] = {}
        self._recorded: dict[Any, Gradient] = {}
        self.compiled: dict[Any, Gradient] = {}
        """Compiled gradients, by the same keys."""

    def __reduce__(self) -> tuple[type[Recordings], tuple[()]]:
        return Recordings, ()

    def replay(self, kind: str, *tensors: torch.Tensor) -> Sequence[torch.Tensor] | None:
        """Return the gradients of a recording for tensors of these shapes, or None without one."""
        if not self._recorded:
            return None
        recorded = self._recorded.get(key_of(kind, *tensors))
        if recorded is None:
            return None
        with torch.no_grad():
            return recorded(*tensors)

    def due(self, kind: str, *tensors: torch.Tensor) -> bool:
        """Count a call; return whether there were so many with these shapes that recording one pays."""
        if not all(isinstance(a, torch.Tensor) for a in tensors):  # inputs or targets in another structure
            return False
        key = key_of(kind, *tensors)
        calls = self._calls[key] = self._calls.get(key, 0) + 1
        return calls == CALLS and len(self._recorded) < MOST

    def record(
        self, kind: str, function: Gradient, tensors: Sequence[torch.Tensor], result: Sequence[torch.Tensor]
    ) -> None:
        """Record a function for tensors of these shapes, if that is possible and gives the same bits.

        Args:
            kind: tells functions apart.
            function: the gradient, without control flow that depends on numbers.
            tensors: its arguments.
            result: its original result for them.
        """
        try:
            recorded = record(function, tensors)
            with torch.no_grad():
                same = all(map(_same_bits, result, recorded(*tensors)))
        except Exception:  # tracing fails in many ways; the original goes on
            return
        if same:
            self._recorded[key_of(kind, *tensors)] = recorded


def key_of(kind: str, *tensors: torch.Tensor) -> Any:
    """Return what a recording depends on besides the numbers."""
    known = ((a.shape, a.stride(), a.dtype, a.device) if isinstance(a, torch.Tensor) else None for a in tensors)
    return kind, torch.get_num_threads(), *known


def record(function: Gradient, tensors: Sequence[torch.Tensor]) -> GraphModule:
    """Return the operations of a function on tensors of these shapes, as a function.

    Raises:
        Exception: the operations depend on numbers in the tensors, or cannot be traced for another reason.

    >>> twice = record(lambda a: [2 * a], [torch.ones(3)])
    >>> twice(torch.arange(3.0))
    [tensor([0., 2., 4.])]
    >>> record(lambda a: [a[a > 0]], [torch.ones(3)])
    Traceback (most recent call last):
        ...
    ValueError: the shape of a result depends on numbers
    """
    from torch.fx.experimental.proxy_tensor import make_fx

    def traced(*given: torch.Tensor) -> Sequence[torch.Tensor]:  # make_fx miscounts the arguments of a method
        return function(*given)

    recorded = make_fx(traced)(*tensors)
    for node in recorded.graph.nodes:
        if torch.Tag.dynamic_output_shape in getattr(node.target, "tags", ()) and not _indexed_by_integers(node):
            raise ValueError("the shape of a result depends on numbers")
    _pool_before_relu(recorded)
    _pool_with_channels_last(recorded)
    return recorded


def _indexed_by_integers(node: torch.fx.Node) -> bool:
    """Whether this is indexing whose result has a fixed shape."""
    if node.target is not torch.ops.aten.index.Tensor:
        return False
    indices: Any = node.args[1]
    return all(index is None or index.meta["val"].dtype not in (torch.bool, torch.uint8) for index in indices)


def _pool_before_relu(recorded: GraphModule) -> None:
    """Apply max(·, 0) after a max pool instead of before it: the same numbers, on a fraction of the entries.

    A window whose maximum is positive has it at the same place. In one without positive entries the gradient is zero
    at every place, whichever the pool has chosen.
    """
    graph, ops = recorded.graph, torch.ops.aten
    for relu in list(graph.find_nodes(op="call_function", target=ops.relu.default)):
        by_target = {user.target: user for user in relu.users}
        wanted = ops.max_pool2d_with_indices.default, ops.max_pool2d_with_indices_backward.default
        if len(relu.users) != 3 or {*by_target} != {*wanted, ops.threshold_backward.default}:
            continue
        pool, back, threshold = (by_target[target] for target in (*wanted, ops.threshold_backward.default))
        maxima = [user for user in pool.users if user.target is operator.getitem and user.args[1] == 0]
        if len(maxima) != 1 or threshold.args != (back, relu, 0) or {*back.users} != {threshold}:
            continue
        source: Any = relu.args[0]
        with graph.inserting_after(maxima[0]):
            positive = graph.call_function(ops.relu.default, (maxima[0],))
        maxima[0].replace_all_uses_with(positive, delete_user_cb=lambda user, new=positive: user is not new)
        with graph.inserting_before(back):
            passed = graph.call_function(ops.threshold_backward.default, (back.args[0], positive, 0))
        pool.args = (source, *pool.args[1:])
        back.args = (passed, source, *back.args[2:])
        threshold.replace_all_uses_with(back)
        graph.erase_node(threshold)
        graph.erase_node(relu)
        pool.args[0].meta.setdefault("val", relu.meta["val"])


def _pool_with_channels_last(recorded: GraphModule) -> None:
    """Let large max pools read their input with the channels last, which gives the same numbers faster."""
    for node in recorded.graph.nodes:
        if node.target is torch.ops.aten.max_pool2d_with_indices.default:
            source: Any = node.args[0]
            value = source.meta["val"]
            large = value.dim() == 4 and value.shape[1] >= POOLED_CHANNELS and value.numel() >= POOLED_NUMBERS
            if large and value.is_contiguous() and all(user.target is operator.getitem for user in node.users):
                node.target = max_pool
    recorded.recompile()


def max_pool(images: torch.Tensor, *options: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the maxima of windows and their places, computed with the channels last.

    >>> images = torch.randn(2, 8, 6, 6)
    >>> expected = torch.nn.functional.max_pool2d(images, 2, return_indices=True)
    >>> all(map(torch.equal, max_pool(images, [2, 2], [2, 2]), expected))
    True
    """
    last = images.contiguous(memory_format=torch.channels_last)
    values, places = torch.ops.aten.max_pool2d_with_indices.default(last, *options)
    return values.contiguous(), places.contiguous()


def _same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two results are the same, NaN included."""
    return a.shape == b.shape and a.dtype == b.dtype and bool(((a == b) | (a.isnan() & b.isnan())).all())
