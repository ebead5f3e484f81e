"""What is known before a run: stability, fixed points, Theorem 1's parameters, bounds on powers and compression.

Pure functions of equations, spectra and numbers; nothing here trains or communicates. docs/theory.md derives them.
"""

from peerdescent.theory.compression import choco_step, flat_run, small_gain_step
from peerdescent.theory.contraction import Contraction, contraction, lossy_contraction
from peerdescent.theory.delays import largest_delay
from peerdescent.theory.fixed_points import Bias, fixed_point, heterogeneity_bias
from peerdescent.theory.invariants import Invariants, invariants
from peerdescent.theory.powerball import corrected_lemma1_bound
from peerdescent.theory.ranges import nearest_stable, stable_range
from peerdescent.theory.recursion import recursion
from peerdescent.theory.sequences import judge_rounds
from peerdescent.theory.stability import stability, stable_up_to
from peerdescent.theory.theorem1 import theorem1_failing, theorem1_parameters
from peerdescent.theory.verdict import Stability

__all__ = [
    "Bias",
    "Contraction",
    "Invariants",
    "Stability",
    "choco_step",
    "contraction",
    "corrected_lemma1_bound",
    "fixed_point",
    "flat_run",
    "heterogeneity_bias",
    "invariants",
    "judge_rounds",
    "largest_delay",
    "lossy_contraction",
    "nearest_stable",
    "recursion",
    "small_gain_step",
    "stability",
    "stable_range",
    "stable_up_to",
    "theorem1_failing",
    "theorem1_parameters",
]
