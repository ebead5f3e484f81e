"""`peerdescent card`: what to know of a method, as Markdown."""

from __future__ import annotations

from typing import Annotated

import typer

from peerdescent.cli.listing import Load


def card(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="The methods; all if none.")] = None,
    load: Load = None,
) -> None:
    """Print cards of methods: equation, messages, needs, bias, stability, reference, when to use it.

    Examples:

    - `peerdescent card extra d2`

    - `peerdescent card > docs/methods.md` writes the page of all methods
    """
    from peerdescent.experiments.cards import page
    from peerdescent.experiments.user_code import load_methods

    for path in load or []:
        load_methods(path)
    print(page(names or []), end="")
