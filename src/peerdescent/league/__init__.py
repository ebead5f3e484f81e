"""The league: every method, tuned at an equal budget, on the same tasks; ranks, tests and one page."""
