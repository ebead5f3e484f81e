"""Randomness as a pure function of (seed, purpose, agent, block); graphs use the same streams."""

from peerdescent._util.randomness import stream

__all__ = ["stream"]
