"""Experiments as data: the schema, files, plans, execution alone or side by side, explanation before a run."""
