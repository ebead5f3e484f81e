"""Run folders: reading and writing them."""
