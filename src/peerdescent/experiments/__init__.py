"""Experiments as data: what they say, where they come from, how they are carried out."""

from peerdescent.experiments.experiment import Experiment, from_keys, library, load_methods, read

__all__ = ["Experiment", "from_keys", "library", "load_methods", "read"]
