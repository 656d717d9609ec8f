"""Dispatch: which message goes to whom. Pure state machines, obeyed by `subscription.py`."""

from .exclusive import Delivery, ExclusiveWindow

__all__ = ["Delivery", "ExclusiveWindow"]
