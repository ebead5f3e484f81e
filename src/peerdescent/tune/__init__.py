"""Good parameters for several methods at an equal budget: where to search, how, what was found, what it cost."""
