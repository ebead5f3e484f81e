"""The library's methods as torch optimizers, and torch's optimizers over a graph: one agent per process.

    torch.distributed.init_process_group("gloo")
    opt = peerdescent.optim.DSGPA(model.parameters(), "ring:4", lr=0.03, alpha=5, beta=20, gamma=0.7)
    for inputs, targets in loader:
        opt.zero_grad()
        loss_function(model(inputs), targets).backward()
        opt.step()

`Gossip(torch.optim.AdamW(...), "ring:4")` mixes the parameters of any optimizer of torch instead. The others are below.

`step` sends the next messages as soon as it has updated the parameters, and they travel during the next forward and
backward pass; so do not change the parameters in place in between (after loading some, call `load_state_dict` or
`restart`), and build the optimizer after moving the model. Only parameters that require a gradient travel. Model
buffers, such as BatchNorm's running statistics, stay local and are never sent; `averaged` gives the mean of parameters
and buffers for evaluation and saving.

All processes make the same calls in the same order: `step`, `averaged`, `wait`, `restart` and `load_state_dict`. If
they do not, or if one dies, the others raise an error within seconds that names it and its step; a slow one is waited
for. Where the processes have different numbers of batches, put the loop in `with opt.join():`; a process that has
finished goes on without gradients until all have. A process that leaves out a batch calls `opt.zero_grad()` and
`opt.step()`. With `torch.amp.GradScaler` all processes skip a step together if the gradient of one overflows.
"""

from peerdescent.optim.further_methods import (
    EDM,
    EXTRA,
    NIDS,
    AugDGM,
    ClippedDSGD,
    DAdam,
    ExactDiffusion,
    MomentumTracking,
    QGDSGDm,
)
from peerdescent.optim.gossip import Gossip
from peerdescent.optim.local_and_compressed import BEER, KGT, LED, ChocoSGD, MoTEF, ProxSkip
from peerdescent.optim.methods import (
    CSGD,
    D2,
    DASG,
    DMSGD,
    DSGD1,
    DSGD2,
    DSGPA,
    DSGT1,
    DSGT2,
    GTHSGD,
    SGP,
    GTNSGDm,
    PoweredTracking,
    PushDIGing,
    SClipEF,
)
from peerdescent.optim.optimizer import Decentralized
from peerdescent.optim.outer import Outer
from peerdescent.optim.setup import Options

__all__ = [
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
    "SGP",
    "AugDGM",
    "ChocoSGD",
    "ClippedDSGD",
    "DAdam",
    "Decentralized",
    "ExactDiffusion",
    "GTNSGDm",
    "Gossip",
    "MoTEF",
    "MomentumTracking",
    "Options",
    "Outer",
    "PoweredTracking",
    "ProxSkip",
    "PushDIGing",
    "QGDSGDm",
    "SClipEF",
]
