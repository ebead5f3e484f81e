"""Many runs side by side, one thread each; stopped at any moment, they go on where they were."""

from __future__ import annotations

import contextlib
import multiprocessing
import threading
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing.queues import Queue
from pathlib import Path
from typing import Protocol, TypeVar

from peerdescent.distributed.worker_process import Environment, interrupts_blocked, prepare_worker, worker_context
from peerdescent.errors import InputError, PeerdescentError
from peerdescent.experiments.resolve import describe, resolve
from peerdescent.experiments.run import RunOptions, run_one
from peerdescent.experiments.schema import Experiment
from peerdescent.experiments.user_code import load_methods
from peerdescent.runs.contents import remove_checkpoints
from peerdescent.runs.fingerprint import fingerprint
from peerdescent.runs.folder import read_experiment, read_summary
from peerdescent.runs.lock import FolderLock
from peerdescent.training.callbacks import Callback
from peerdescent.training.early_stopping import STOPPED_EARLY
from peerdescent.training.loop import Run
from peerdescent.training.plan import Plan, with_defaults

_messages: Queue[tuple[int, int]] | None = None


class Part(Protocol):
    """One run of many: an experiment with one method, and the folder of its records below that of all."""

    @property
    def experiment(self) -> Experiment:
        """What is run."""
        ...

    def folder(self, out: Path) -> Path:
        """Where its records are."""
        ...


P = TypeVar("P", bound=Part)
Part_contra = TypeVar("Part_contra", bound=Part, contravariant=True)


class Work(Protocol[Part_contra]):
    """What a worker does with a part: a function of a module, so that workers find it."""

    def __call__(self, part: Part_contra, folder: Path, progress: Callable[[int], None], /) -> None:
        """Leave the records in the folder."""
        ...


def execute(
    parts: Sequence[P],
    out: Path,
    jobs: int,
    report: Callable[[P, int], None],
    work: Work[P] | None = None,
    done: Callable[[P, Path], bool] | None = None,
) -> None:
    """Run what is not finished yet, `jobs` at a time; `report` hears how far each part is.

    A part is trained, unless `work` says what else to do with it (and `done`, whether that was done).
    """
    done = done or finished
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is said of a method's values would be said of every part
        todo = [i for i, part in enumerate(parts) if not done(part, out)]
    for i in set(range(len(parts))) - set(todo):
        report(parts[i], parts[i].experiment.iterations)
    if jobs == 1:  # in this process: a worker would take seconds to start
        for i in todo:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                _run(parts[i], out, work or _train, partial(report, parts[i]))
        return
    if not todo:
        return
    context = worker_context()
    messages: Queue[tuple[int, int]] = context.Queue()
    listener = threading.Thread(target=_listen, args=(messages, parts, report), daemon=True)
    listener.start()
    with ProcessPoolExecutor(jobs, context, _start_worker, (Environment(), messages)) as pool:
        with interrupts_blocked():  # the first one starts the workers
            futures = [pool.submit(_work, i, parts[i], out, work or _train) for i in todo]
        try:
            for future in as_completed(futures):
                future.result()
        except BrokenProcessPool as error:
            raise PeerdescentError(
                "a worker was killed, perhaps for want of memory: use fewer --jobs; the same command goes on."
            ) from error
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                process.terminate()
            raise
    messages.put((-1, 0))
    listener.join()


def finished(part: Part, out: Path) -> bool:
    """Whether a part has run to its end, or to its divergence, under just these conditions."""
    folder = part.folder(out)
    try:
        summary, known = read_summary(folder), with_defaults(read_experiment(folder))
    except (OSError, ValueError):
        return False
    wanted = describe(part.experiment, part.experiment.algorithms[0])
    if wanted["gradients"] == "measure" or (wanted["gradients"], known.get("gradients")) == ("auto", "compiled"):
        wanted["gradients"] = known.get("gradients")  # what was measured or compiled then
    if not summary or fingerprint(known) != fingerprint(wanted):
        return False
    early = summary.get("status") == STOPPED_EARLY and all(
        known.get(key) == wanted.get(key) for key in ("patience", "monitor", "iterations")
    )
    return bool(summary.get("diverged") or early or summary.get("iteration") == part.experiment.iterations)


def _work(index: int, part: P, out: Path, work: Work[P]) -> None:
    def progress(k: int) -> None:
        assert _messages is not None
        _messages.put((index, k))

    _run(part, out, work, progress)


def _run(part: P, out: Path, work: Work[P], progress: Callable[[int], None]) -> None:
    for path in part.experiment.load:
        load_methods(path)
    folder = part.folder(out)
    folder.parent.mkdir(parents=True, exist_ok=True)
    work(part, folder, progress)


def _train(part: Part, folder: Path, progress: Callable[[int], None]) -> None:
    (plan,) = resolve(part.experiment)
    train(plan, folder, progress)


def train(plan: Plan, folder: Path, progress: Callable[[int], None]) -> None:
    """Run a plan to its end, or go on with it; its records stay, its checkpoints do not."""
    plan.check_memory()
    run_one(plan, folder, RunOptions(resume=True), [Report(progress)])
    with contextlib.suppress(InputError), FolderLock(folder):  # another process may already have gone on with it
        remove_checkpoints(folder)  # the records are complete; states of 50 agents are large


class Report(Callback):
    """Tells how far a run is."""

    def __init__(self, progress: Callable[[int], None]) -> None:
        self._progress = progress

    def on_progress(self, run: Run) -> None:
        """Tell the iteration."""
        self._progress(run.k)


def _start_worker(_: Environment, messages: Queue[tuple[int, int]]) -> None:
    global _messages  # noqa: PLW0603 (a process pool hands state to its workers in no other way)
    _messages = messages
    warnings.simplefilter("ignore")  # they would tear the progress display; the parent says them
    prepare_worker()


def _listen(messages: Queue[tuple[int, int]], parts: Sequence[P], report: Callable[[P, int], None]) -> None:
    while True:
        index, k = messages.get()
        if index < 0:
            return
        report(parts[index], k)
