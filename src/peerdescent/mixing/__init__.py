"""L and W for tensors: weights, sparse products, and networks of all agents or of one process's block."""
