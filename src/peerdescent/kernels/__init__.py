"""A method's step on the agents' rows: one fused pass over memory, or its eager reference."""
