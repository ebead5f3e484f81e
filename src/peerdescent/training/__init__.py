"""Training: the loop, its settings and callbacks, gradients, evaluation, records, checkpoints, recovery."""
