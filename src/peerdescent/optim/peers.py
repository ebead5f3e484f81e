"""The processes of optimizers: a group of torch.distributed of their own, whose calls never wait for ever in vain.

Every collective call of an optimizer is logged (see `call_log`). A wait inside gloo cannot be polled, so a thread looks
after calls that take long: it publishes this process's log in the group's store and compares those of the others. A
process that computes, however long, publishes nothing and is waited for. If the logs disagree, or another process has
failed, nobody can go on: the thread shuts down the group's connections, which ends the wait, and the call raises.

A script often ends its loop with `torch.distributed.barrier()`, which is no call of an optimizer. So the thread also
publishes for how long its process has been in one; if that grows while another process waits in a call that this one
has not made, they wait for each other.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import secrets
import socket
import sys
import threading
import time
import weakref
import zlib
from collections.abc import Iterator, Sequence

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import PrefixStore

from peerdescent.distributed.device_transport import device_backend
from peerdescent.distributed.gloo import WAIT_TIMEOUT, global_rank, reason_of
from peerdescent.distributed.p2p import PointToPoint
from peerdescent.distributed.process_group import ProcessGroup
from peerdescent.distributed.signed_store import SignedStore
from peerdescent.distributed.sockets import open_sockets
from peerdescent.errors import InputError, PeerdescentError, PeerLostError
from peerdescent.optim import barriers
from peerdescent.optim.call_log import STEP, CallLog, disagreement, processes

INTERVAL = 1.0
"""Seconds between looks at a call that takes long."""
EXPLAIN_SECONDS = 3.0
"""Seconds in which a process finds out why a connection broke."""
FORCE_SECONDS = 10.0
"""Seconds that a call has to end once its connections are shut down; then the process exits."""
RELEASE_SECONDS = 1.0
"""How long gloo may take to let go of a tensor; it takes milliseconds on a busy machine."""
BARRIER_SECONDS = 3
"""How long a barrier lasts, while another process waits in a call, until they wait for each other in vain."""
FAILURE = "failure"
"""The key in the store of the first failure that a process found."""


class Peers(ProcessGroup):
    """This process among those of a process group of torch; made in all of them together.

    Args:
        given: the user's process group, by default torch's default one; ranks are counted within it.
    """

    def __init__(self, given: dist.ProcessGroup | None = None) -> None:
        before = open_sockets()
        self._ranks = None if given is None else dist.get_process_group_ranks(given)
        self._backends = dist.get_backend_config(given)
        self._torch_group = self._new_group("gloo")
        opened = open_sockets() - before
        token = torch.tensor([secrets.randbits(62)])  # not torch's generator, whose numbers are the user's
        dist.broadcast(token, global_rank(0, self._torch_group), group=self._torch_group)
        # A store may outlive a process group, so the keys of each group have their own prefix.
        store = PrefixStore(f"peerdescent/{token.item()}", dist.distributed_c10d._get_default_store())
        rank, size = dist.get_rank(given), dist.get_world_size(given)
        store.set(f"host/{rank}", socket.gethostname())
        hosts = [store.get(f"host/{peer}").decode() for peer in range(size)]
        super().__init__(rank, size, SignedStore(store), hosts)
        self.store = store
        self._sockets, self.p2p = opened, PointToPoint(self.traffic, self._torch_group)
        self.log, self.optimizers = CallLog(), 0
        self._since: float | None = None
        self._failure: PeerdescentError | None = None
        self._published, self._seen, self._store_lost = "", -1, False
        self._logs: dict[int, CallLog] = {}
        self._barrier: tuple[int | None, int] = None, 0
        barriers.watch()
        self._first_seen: dict[tuple[float | None, int], int] = {}
        self._thread_id, self._pid = threading.get_ident(), os.getpid()
        self._lock = threading.Lock()
        self._exiting = threading.Event()
        world = weakref.ref(dist.distributed_c10d._get_default_group())
        self._thread = threading.Thread(target=self._watch, args=(world,), daemon=True, name="peerdescent-optim")
        self._thread.start()
        atexit.register(self._exit)

    def _new_group(self, backend: str) -> dist.ProcessGroup:
        """A group of the same processes; for a part of all processes, only these call it."""
        part = self._ranks is not None
        made: dist.ProcessGroup = dist.new_group(self._ranks, backend=backend, use_local_synchronization=part)
        return made

    def prepare_device(self, device: torch.device) -> None:
        """Send rows of this device with its own backend, such as NCCL, if the user's group has one; all call this."""
        backend = "" if device.type == "cpu" else device_backend(device.type, self._backends)
        if backend not in ("", "gloo") and self.device_group is None:
            self.device_group = self._new_group(backend)

    @contextlib.contextmanager
    def call(self, name: str) -> Iterator[None]:
        """A collective call: it ends, or raises what makes it wait in vain.

        Raises:
            InputError: the processes do not make the same calls.
            PeerLostError: a process is lost or has failed.
        """
        if self._failure is not None:
            raise self._failure
        self.log.append(name)
        self._since, self._thread_id = time.monotonic(), threading.get_ident()
        try:
            yield
        except PeerLostError as error:
            raise self._explained(error) from None
        finally:
            self._since = None

    def next_label(self) -> str:
        """What tells the calls of another optimizer from those of the first."""
        self.optimizers += 1
        return f" of optimizer {self.optimizers}" if self.optimizers > 1 else ""

    def agree(self, flags: tuple[float, float] = (0.0, 0.0)) -> list[float]:
        """The largest of each flag over all processes, which must all be in the same call.

        All calls send equally many numbers: gloo aborts a process that receives more than it expects.
        """
        code = float(zlib.crc32(self.log.runs[-1][1].encode()))
        header = torch.tensor([self.log.calls, -self.log.calls, code, -code, *flags], dtype=torch.float64)
        calls, minus_calls, codes, minus_codes, *agreed = self.all_reduce(header, dist.ReduceOp.MAX).tolist()
        if calls != -minus_calls or codes != -minus_codes:
            raise PeerLostError({}, "the processes are in different calls")
        return agreed

    def all_reduce(self, tensor: torch.Tensor, operation: dist.ReduceOp.RedOpType = dist.ReduceOp.SUM) -> torch.Tensor:
        """Reduce a contiguous tensor over all processes, in place."""
        options = dist.AllreduceOptions()
        options.reduceOp, options.timeout = dist.ReduceOp(operation), WAIT_TIMEOUT
        host = tensor.cpu()  # the tensor itself, unless it is on a device
        try:
            with _released(host):
                self._torch_group.allreduce([host], options).wait(WAIT_TIMEOUT)
        except RuntimeError as error:
            raise PeerLostError({}, reason_of(error)) from error
        return tensor if host is tensor else tensor.copy_(host)

    def broadcast(self, tensor: torch.Tensor) -> None:
        """Replace a tensor by that of rank 0."""
        host = tensor.cpu()
        try:
            with _released(host):
                dist.broadcast(host, global_rank(0, self._torch_group), group=self._torch_group)
        except RuntimeError as error:
            raise PeerLostError({0: reason_of(error)}) from error
        if host is not tensor:
            tensor.copy_(host)

    def _watch(self, world: weakref.ref[dist.ProcessGroup]) -> None:
        """The thread: look after calls that take long, as long as torch's process group exists."""
        while world() is not None and self._failure is None and not self._exiting.wait(INTERVAL):
            self._report_barrier()
            since = self._since
            if since is not None and time.monotonic() - since > INTERVAL and (failure := self._diagnosed()):
                self._failure = failure
                self.interrupt()
                self._force_end(since)
        if world() is None:
            self._publish_end()
            atexit.unregister(self._exit)

    def _report_barrier(self) -> None:
        """Publish for how long the user's thread has been in a barrier, and once more when it has left."""
        call, (last_call, last_seconds) = barriers.call_in(self._thread_id), self._barrier
        seconds = last_seconds + 1 if call is not None and call == last_call else 0
        self._barrier = call, seconds
        if (seconds or last_seconds) and not self._store_lost:
            try:
                with self._lock:
                    self._publish(self.log.text(barrier_seconds=seconds))
            except RuntimeError:
                self._store_lost = True

    def _force_end(self, since: float) -> None:
        """Exit if the call does not end although its connections are shut down."""
        end = time.monotonic() + FORCE_SECONDS
        while self._since == since:
            if time.monotonic() > end:
                sys.stderr.write(f"{self._failure}\n")
                sys.stderr.flush()
                os._exit(self._failure.exit_code if self._failure else 1)
            time.sleep(0.1)

    def _explained(self, error: PeerLostError) -> PeerdescentError:
        """Why a connection broke: another process has published it, or one ended without a word."""
        end = time.monotonic() + EXPLAIN_SECONDS
        while self._failure is None and not self._store_lost and time.monotonic() < end:
            self._failure = self._diagnosed()
            time.sleep(0.05)
        if self._failure is None:
            reason = next(iter(error.reasons.values()), str(error))
            self._failure = self._publish_failure(self._lost(error.ranks, reason))
        return self._failure

    def _lost(self, ranks: Sequence[int], reason: str) -> PeerLostError:
        who = processes(ranks) if ranks else "a process"
        return PeerLostError(
            dict.fromkeys(ranks, reason),
            f"{who} ended or was killed while others waited for it after step {self.log.steps} ({reason}): its own "
            "output says why; if it made fewer steps, use `with optimizer.join():`.",
        )

    def _diagnosed(self) -> PeerdescentError | None:
        """Publish this process's log, and compare it with those of the others; None if they agree so far."""
        with self._lock:
            try:
                return None if self._store_lost else self._compared()
            except RuntimeError as error:
                self._store_lost = True  # every further use would print pages
                served_by_torchrun = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
                return self._lost([] if served_by_torchrun else [0], reason_of(error))

    def _compared(self) -> PeerdescentError | None:
        self._publish(self.log.text())
        version = self.store.add("version", 0)
        if version == self._seen:
            return None
        self._seen = version
        if self.store.check([FAILURE]):
            return _failure_from(self.store.get(FAILURE))
        for rank in range(self.size):
            if self.store.check([f"log/{rank}"]):
                log = self._logs[rank] = CallLog.parse(self.store.get(f"log/{rank}"))
                if log.barrier_seconds:  # it may have left since, but not if this grows during one call here
                    first = self._first_seen.setdefault((self._since, rank), log.barrier_seconds)
                    log.in_barrier = log.barrier_seconds - first >= BARRIER_SECONDS
        sentence = disagreement(self._logs)
        return self._publish_failure(InputError(sentence)) if sentence else None

    def _publish(self, text: str) -> None:
        if text != self._published:
            self.store.set(f"log/{self.rank}", text)
            self.store.add("version", 1)
            self._published = text

    def _publish_failure(self, error: PeerdescentError) -> PeerdescentError:
        """The first failure that a process published: this one, or another's."""
        if self._store_lost:
            return error
        ranks = list(error.ranks) if isinstance(error, PeerLostError) else None
        try:
            text = json.dumps({"message": str(error), "lost": ranks})
            first = self.store.compare_set(FAILURE, "", text)
            self.store.add("version", 1)
        except RuntimeError:
            self._store_lost = True
            return error
        return _failure_from(first)

    def _exit(self) -> None:
        """At the end of this process: a thread that is inside the store then would abort the process."""
        self._exiting.set()
        if os.getpid() == self._pid:
            self._thread.join(EXPLAIN_SECONDS)
            self._publish_end()

    def _publish_end(self) -> None:
        """At the end of this process, or of its process group: tell those that still wait for its next step.

        After any other call nobody does, and the process that serves the store may have ended: torch prints pages then.
        """
        stepping = bool(self.log.runs) and self.log.runs[-1][1].startswith(STEP)
        if stepping and not self._store_lost:
            with contextlib.suppress(RuntimeError):
                self._publish(self.log.text(ended=True))


@contextlib.contextmanager
def _released(tensor: torch.Tensor) -> Iterator[None]:
    """A call of gloo, and the moment until its thread has let go of the tensor.

    A wait may end before that. If Python has dropped the tensor by then, the thread frees it and needs the
    interpreter; if that is ending, the process aborts.
    """
    references = getattr(tensor, "_use_count", lambda: 0)  # earlier versions of torch do not tell
    before = references()
    yield
    end = time.monotonic() + RELEASE_SECONDS
    while references() > before and time.monotonic() < end:
        time.sleep(0)


def _failure_from(text: bytes) -> PeerdescentError:
    entry = json.loads(text)
    if entry["lost"] is None:
        return InputError(entry["message"])
    return PeerLostError(dict.fromkeys(entry["lost"], "lost"), entry["message"])


_known: weakref.WeakKeyDictionary[dist.ProcessGroup, Peers] = weakref.WeakKeyDictionary()
"""One for each process group of torch: tags and calls are counted over all its optimizers."""


def peers_in(given: dist.ProcessGroup | None = None) -> Peers:
    """The processes of a process group, by default of torch's default one, which the user has initialized."""
    world = dist.distributed_c10d._get_default_group()
    key = given or world
    if key not in _known:
        _known[key] = Peers(None if key is world else given)
    return _known[key]
