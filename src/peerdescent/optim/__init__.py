"""The library's methods as torch optimizers: one agent per process, in your own training loop.

    torch.distributed.init_process_group("gloo")
    opt = peerdescent.optim.DSGPA(model.parameters(), "ring:4", lr=0.03, alpha=5, beta=20, gamma=0.7)
    for inputs, targets in loader:
        opt.zero_grad()
        loss_function(model(inputs), targets).backward()
        opt.step()

Every process must call `step` equally often. `step` sends the next messages as soon as it has updated the parameters,
and they travel during the next forward and backward pass; so do not change the parameters in place in between (after
loading some, call `load_state_dict` or `restart`). Model buffers, such as BatchNorm's running statistics, stay local
and are never sent; `averaged` gives the mean of parameters and buffers for evaluation and saving.
"""

from peerdescent.optim.methods import CSGD, D2, DASG, DMSGD, DSGD1, DSGD2, DSGPA, DSGT1, DSGT2
from peerdescent.optim.optimizer import Decentralized
from peerdescent.optim.setup import Options

__all__ = ["CSGD", "D2", "DASG", "DMSGD", "DSGD1", "DSGD2", "DSGPA", "DSGT1", "DSGT2", "Decentralized", "Options"]
