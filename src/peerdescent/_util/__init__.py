"""Helpers for all packages: input checks, atomic writes, the cache folder, TOML."""
