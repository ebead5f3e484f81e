"""Any optimizer of torch inside, in processes that torchrun starts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tests.e2e.test_optim_torchrun import environment
from tests.optim.test_gossip import reference
from tests.support import gossip_loops
from tests.support.commands import PATIENCE

pytestmark = pytest.mark.e2e


def test_adamw_with_an_outer_step_under_torchrun(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "3", "--standalone"]
    command += [gossip_loops.__file__, str(tmp_path)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    found = [json.loads((tmp_path / f"{rank}.json").read_text())["x"] for rank in range(3)]
    expected = reference("adamw", every=2, outer="nesterov", average_every=3)
    torch.testing.assert_close(torch.tensor(found, dtype=torch.float64), expected, rtol=1e-11, atol=1e-12)
