"""How fast commands start, against importing torch."""

from __future__ import annotations

import subprocess
import sys
from functools import partial

from measure import medians

COMMANDS = {
    "import torch": ["-c", "import torch"],
    "peerdescent --help": ["-m", "peerdescent", "--help"],
    "peerdescent run --iterations many": ["-m", "peerdescent", "run", "--iterations", "many"],
    "import peerdescent": ["-c", "import peerdescent"],
    "from peerdescent import train": ["-c", "from peerdescent import train"],
    "from peerdescent import optim": ["-c", "from peerdescent import optim"],
}


def start(arguments: list[str]) -> None:
    subprocess.run([sys.executable, *arguments], capture_output=True, check=False)


def main() -> None:
    times = medians({name: partial(start, arguments) for name, arguments in COMMANDS.items()}, rounds=7)
    print(f"{'':36}{'seconds':>8}{'/ torch':>9}")
    for name, seconds in times.items():
        print(f"{name:36}{seconds:8.2f}{seconds / times['import torch']:9.2f}")


if __name__ == "__main__":
    main()
