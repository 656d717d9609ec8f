"""Settings for all tests."""

import os

from hypothesis import settings

# Tests share the machine's cores with each other: a slow example is no failure. Other settings stay with each test.
settings.register_profile("danube", deadline=None, print_blob=True)
settings.load_profile("danube")

# Event loops look for coroutines that were never awaited and for calls from a wrong thread.
os.environ["PYTHONASYNCIODEBUG"] = "1"
