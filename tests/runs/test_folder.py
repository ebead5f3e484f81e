import json
import math
import subprocess
import sys

import numpy as np
import torch

from peerdescent.runs.folder import RunFolder, environment, read_metrics, read_summary


def test_reading_a_run_folder_loads_no_torch_and_no_numpy():
    script = "import sys, peerdescent.runs.folder as f; f.environment(); print({'torch', 'numpy'} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert found.stdout == "set()\n"


def test_the_environment_names_the_versions_in_use():
    found = environment()
    assert (found["torch"], found["numpy"]) == (torch.__version__, np.__version__)


def test_files_hold_null_where_a_number_is_not_finite(tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.append({"iteration": 0, "loss": math.nan, "agent_loss": [1.0, math.inf]})
    folder.finish({"loss": -math.inf, "notes": ["short"]})
    folder.close()
    (line,) = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert json.loads(line) == {"iteration": 0, "loss": None, "agent_loss": [1.0, None]}
    assert read_metrics(folder.path).rows == [json.loads(line)]
    assert read_summary(folder.path) == {"loss": None, "notes": ["short"]}
