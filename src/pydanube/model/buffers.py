"""What counts as bytes here: anything that can be viewed without a copy."""

from typing import TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview
