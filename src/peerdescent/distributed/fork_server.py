"""What the fork server imports: all that workers need, given up if the parent ends meanwhile.

A fork server looks at its connection to the parent only when the imports are done, which takes seconds.
"""

from __future__ import annotations

import importlib

from peerdescent._util.orphans import ending_with_parent

with ending_with_parent():
    for name in ("peerdescent.training.loop", "peerdescent.experiments.run"):
        importlib.import_module(name)
