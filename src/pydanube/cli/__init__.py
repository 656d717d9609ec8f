"""The command `danube`."""

from .main import main

__all__ = ["main"]
