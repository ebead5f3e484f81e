"""`peerdescent export`: the model of a run as a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from peerdescent.cli.flags import path_of


def export(
    run: Annotated[Path, typer.Argument(parser=path_of, metavar="RUN", help="The run folder.")],
    file: Annotated[Path, typer.Argument(parser=path_of, metavar="FILE", help="The file to write, .safetensors.")],
    agent: Annotated[
        int | None, typer.Option(metavar="I", help="The model of this agent, not the average of all.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file.")] = False,
    trust: Annotated[bool, typer.Option("--trust", help="Run the Python files that the run loaded.")] = False,
) -> None:
    """Write the trained model of a run as safetensors, its parameters by name.

    Examples:

    - `peerdescent export runs/a model.safetensors` writes the average of all agents

    - `peerdescent export runs/a agent3.safetensors --agent 3`

    In Python: `model.load_state_dict(safetensors.torch.load_file("model.safetensors"))`.

    Exit code 2: the folder holds no run that can be exported.
    """
    from peerdescent.experiments.export import export as write

    names = write(run, file, agent, overwrite, trust)
    print(f"{file}: {', '.join(names[:6])}{', …' if len(names) > 6 else ''}")
