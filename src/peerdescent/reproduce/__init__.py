"""The reproduction of the paper: its experiments as data, parallel runs, verdicts, a report."""
