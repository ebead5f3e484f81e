"""Small helpers that every package may use: validation, files, cache, TOML, numbers."""
