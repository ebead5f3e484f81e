"""The methods, one short file per family: each docstring is the equation, and the code reads like it."""

from peerdescent.algorithms.adaptive import DAdam
from peerdescent.algorithms.base import Algorithm, Network, Step, as_algorithm, varied
from peerdescent.algorithms.clipped import ClippedDSGD
from peerdescent.algorithms.compressed import BEER, ChocoSGD, MoTEF
from peerdescent.algorithms.d2 import D2
from peerdescent.algorithms.describe import describe, name_of
from peerdescent.algorithms.diffusion import EDM, NIDS, ExactDiffusion
from peerdescent.algorithms.dsgpa import DSGPA
from peerdescent.algorithms.global_momentum import MomentumTracking, QGDSGDm
from peerdescent.algorithms.gossip import GossipAdam, GossipSGD, OuterAdam, OuterSGD
from peerdescent.algorithms.gradient_tracking import DSGT1, DSGT2, AugDGM, PoweredTracking
from peerdescent.algorithms.heavy_tails import GTNSGDm, SClipEF
from peerdescent.algorithms.hybrid_tracking import GTHSGD
from peerdescent.algorithms.local_steps import KGT, LED, ProxSkip
from peerdescent.algorithms.momentum import DASG, DMSGD
from peerdescent.algorithms.primal_dual import EXTRA
from peerdescent.algorithms.push_sum import SGP, PushDIGing
from peerdescent.algorithms.registry import ALIASES, PRESETS, Preset, canonical, find, make, register, unregister
from peerdescent.algorithms.sgd import CSGD, DSGD1, DSGD2

__all__ = [
    "ALIASES",
    "BEER",
    "CSGD",
    "D2",
    "DASG",
    "DMSGD",
    "DSGD1",
    "DSGD2",
    "DSGPA",
    "DSGT1",
    "DSGT2",
    "EDM",
    "EXTRA",
    "GTHSGD",
    "KGT",
    "LED",
    "NIDS",
    "PRESETS",
    "SGP",
    "Algorithm",
    "AugDGM",
    "ChocoSGD",
    "ClippedDSGD",
    "DAdam",
    "ExactDiffusion",
    "GTNSGDm",
    "GossipAdam",
    "GossipSGD",
    "MoTEF",
    "MomentumTracking",
    "Network",
    "OuterAdam",
    "OuterSGD",
    "PoweredTracking",
    "Preset",
    "ProxSkip",
    "PushDIGing",
    "QGDSGDm",
    "SClipEF",
    "Step",
    "as_algorithm",
    "canonical",
    "describe",
    "find",
    "make",
    "name_of",
    "register",
    "unregister",
    "varied",
]
