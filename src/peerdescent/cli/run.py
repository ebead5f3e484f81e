"""`peerdescent run` and `peerdescent compare`."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from peerdescent.cli import flags, sweep
from peerdescent.cli.stopping import explained, resume_command
from peerdescent.distributed.torchrun import under_torchrun
from peerdescent.errors import InputError
from peerdescent.loggers import check_names

if TYPE_CHECKING:
    from peerdescent.experiments.schema import Experiment
    from peerdescent.experiments.sweep import Sweep


@flags.with_flags(flags.record_flags, flags.process_flags, flags.sweep_flags, flags.log_flags)
def run(**given: Any) -> None:
    """Run one method and keep its records.

    Examples:

    - `peerdescent run -a dsgpa-f-pb --graph er:10:0.4 --set eta=.03 --set gamma=.7 --seed 1 --out runs/a`

    - `peerdescent run runs/a --seed 2` repeats a run with another seed; `run runs/a --resume` continues it

    - `peerdescent run experiment.toml --seeds 5 --set eta=.01,.03,.1` runs 15 times and shows mean ± deviation

    - `peerdescent run experiment.toml --workers 2` shares the agents among two processes

    - `torchrun --nnodes 4 --rdzv-backend c10d --rdzv-endpoint HOST:29400 -m peerdescent run experiment.toml`

    Exit code 1: it cannot go on; 2: wrong input; 3: it diverged; 130, 143: stopped by Ctrl-C, SIGTERM.
    """
    _execute(given, together=False)


@flags.with_flags(flags.record_flags, flags.process_flags, flags.sweep_flags, flags.log_flags)
def compare(**given: Any) -> None:
    """Run several methods under equal conditions: one table, one figure.

    Examples:

    - `peerdescent compare quickstart`

    - `peerdescent compare -a dsgpa-t-pb -a dm-sgd --graph ring:10 --partition dirichlet:0.3`

    - `peerdescent compare -a d2 -a dm-sgd --graph ring:10 --seeds 0,3,7 --out runs/b` compares means over seeds

    - `peerdescent compare runs/b --resume`

    Exit code 1: it cannot go on; 2: wrong input; 3: all methods diverged; 130, 143: stopped by Ctrl-C, SIGTERM.
    """
    _execute(given, together=True)


def _execute(given: dict[str, Any], together: bool) -> None:
    """Execute what the flags ask for, showing how it goes; raises if every method diverged."""
    flags.silence(given["quiet"])
    check_names(given["log"] or ())
    # Wrong flags are reported before torch is imported, but under torchrun by rank 0 alone.
    early = None if under_torchrun() else _requested(given, together)
    if early is not None and early[1]:
        return sweep.execute(*early, given, "compare" if together else "run")
    from peerdescent.cli.display import Display
    from peerdescent.distributed.launcher import torchrun
    from peerdescent.experiments.resolve import resolve
    from peerdescent.experiments.run import RunOptions, execute

    faults = {"on_loss": given["on_loss"], "kill": tuple(given["kill"] or ()), "stall": tuple(given["stall"] or ())}
    records = {"resume": given["resume"], "overwrite": given["overwrite"], "log": flags.loggers_from(given)}
    options = RunOptions(flags.folder_from(given), **records, workers=given["workers"], **faults)
    with torchrun() as group:
        experiment, swept = early or _requested(given, together)
        if swept:
            raise InputError("several seeds or values run side by side on one machine: start them without torchrun.")
        if group is not None and options.on_loss == "restart" and options.out is None:
            raise InputError("--on-loss restart needs --out under torchrun: name the run folder to resume.")
        folder = options.folder("compare" if together else experiment.algorithms[0])
        silent = given["quiet"] or given["as_json"] or not (group is None or group.is_rank_zero)
        display = Display(silent)
        display.fetch_data(experiment)
        plans = resolve(experiment)
        display.introduce(experiment, plans, given["strict"])
        advice = partial(resume_command, "compare" if together else "run", folder, options.workers)
        with explained(advice), display.progress():
            outcomes = execute(experiment, replace(options, out=folder), together, display.callbacks_for, group, plans)
        if group is None or group.is_rank_zero:
            display.conclude(outcomes, folder, given["as_json"])
        errors = [outcome.error for outcome in outcomes.values() if outcome.error is not None]
        if len(errors) == len(outcomes):
            raise errors[0]


def _requested(given: dict[str, Any], together: bool) -> tuple[Experiment, Sweep]:
    experiment, swept = flags.sweep_from(given)
    if not together:
        flags.check_one_method(experiment)
    if given["jobs"] is not None and not swept:
        raise InputError("--jobs is for several runs side by side: add --seeds, or several values to --set.")
    return experiment, swept
