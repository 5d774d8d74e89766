"""Data loading for AI training with threads, from a C core."""

from importlib.metadata import version as _version

__version__ = _version("headrace")
del _version
