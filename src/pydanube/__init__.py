"""Danube in Python: publish/subscribe messaging and streaming."""
