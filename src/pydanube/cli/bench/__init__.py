"""`danube bench`: what a broker can do, measured from outside and with every message checked."""

from .commands import bench

__all__ = ["bench"]
