"""Data loading for AI training with threads, from a C core."""

from headrace._ext import VERSION as __version__  # importlib.metadata takes 40 ms

__all__ = ["__version__"]
