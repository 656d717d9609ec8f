"""The command `danube`. It begins in `entry.py`; nothing is imported here, so that a missing package can be told."""
