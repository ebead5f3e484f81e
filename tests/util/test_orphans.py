"""Processes that must not outlive their parent."""

from __future__ import annotations

import subprocess
import sys

import pytest

BOTH = """
import os, time
from peerdescent._util.orphans import ending_with_parent
read, write = os.pipe()
if os.fork():
    os.read(read, 1)
    os._exit(0)
with ending_with_parent():
    os.write(write, b"x")
    while True:
        time.sleep(60)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has the fork server that this is for")
def test_a_process_ends_with_its_parent() -> None:
    """The output ends when both processes have, since both hold it."""
    assert subprocess.run([sys.executable, "-c", BOTH], capture_output=True, timeout=120, check=True).stdout == b""
