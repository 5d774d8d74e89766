"""Data loading for AI training with threads, from a C core."""

from headrace import _ext

__version__ = _ext.VERSION  # importlib.metadata would take 40 ms
