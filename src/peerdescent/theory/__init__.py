"""What is known before a run: stability, fixed points, convergence, Theorem 1's parameters, powers, compression.

Pure functions of equations, spectra and numbers; nothing here trains or communicates. docs/theory.md and
docs/convergence.md derive them.
"""

from peerdescent.theory.compression import choco_step, flat_run, small_gain_step
from peerdescent.theory.contraction import Contraction, contraction, lossy_contraction
from peerdescent.theory.delays import largest_delay
from peerdescent.theory.exact import ExactBound, exact_bound, exact_failing, exact_parameters
from peerdescent.theory.fixed_points import Bias, fixed_point, heterogeneity_bias
from peerdescent.theory.invariants import Invariants, invariants
from peerdescent.theory.local import FixedPoint, inspect_fixed_point
from peerdescent.theory.powerball import corrected_lemma1_bound
from peerdescent.theory.ranges import nearest_stable, stable_range
from peerdescent.theory.recursion import recursion
from peerdescent.theory.sequences import judge_rounds
from peerdescent.theory.stability import stability, stable_up_to
from peerdescent.theory.theorem1 import theorem1_failing, theorem1_parameters, theorem1_proof_iterations
from peerdescent.theory.verdict import Stability

__all__ = [
    "Bias",
    "Contraction",
    "ExactBound",
    "FixedPoint",
    "Invariants",
    "Stability",
    "choco_step",
    "contraction",
    "corrected_lemma1_bound",
    "exact_bound",
    "exact_failing",
    "exact_parameters",
    "fixed_point",
    "flat_run",
    "heterogeneity_bias",
    "inspect_fixed_point",
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
    "theorem1_proof_iterations",
]
