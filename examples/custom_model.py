"""Any nn.Module, loss and data: ten simulated agents fit a small network to a curve, each with its own samples.

python examples/custom_model.py
"""

import torch
from torch import nn

import peerdescent

torch.manual_seed(0)
angle = torch.linspace(-3, 3, 1000)[:, None]
model = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1))
problem = peerdescent.problems.supervised(model, nn.functional.mse_loss, (angle, torch.sin(2 * angle)), agents=10)

method = peerdescent.algorithms.make("dsgpa-f-pb-exact", eta=0.02, alpha=5, beta=3)
result = peerdescent.train(problem, "ring:10", method, iterations=3000, batch_size=20, seed=1)

print(result.metrics.to_pandas()[["iteration", "loss", "consensus_error"]].iloc[::10].to_string(index=False))
print(f"averaged model at 0.5: {result.model()(torch.tensor([[0.5]])).item():.3f} (exact: sin(1) = 0.841)")
