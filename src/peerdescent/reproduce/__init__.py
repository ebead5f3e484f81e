"""The paper, reproduced: its experiments as data, run side by side, judged, reported."""
