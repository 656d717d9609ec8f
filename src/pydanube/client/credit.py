"""How many bytes of batches may be on their way to the broker: the standing credit of a connection, then grants.

A batch is paid from the standing credit as far as that goes, the rest from grants; both ends count alike. The standing
part comes back with the answer, the granted part is gone.
"""

WANT_BYTES_MAX = 16 << 20


class Credit:
    def __init__(self, standing_bytes: int) -> None:
        self._free_bytes = standing_bytes
        self._granted_bytes = 0
        self._wanted_bytes = 0  # asked for, and not granted yet

    def take(self, size: int) -> int | None:
        """Pay for a batch that is about to be sent. What to give `back` with its answer; None: it has to wait."""
        standing = min(size, self._free_bytes)
        if size - standing > self._granted_bytes:
            return None
        self._free_bytes -= standing
        self._granted_bytes -= size - standing
        return standing

    def back(self, standing: int) -> None:
        self._free_bytes += standing

    def grant(self, size: int) -> None:
        self._granted_bytes += size
        self._wanted_bytes = max(0, self._wanted_bytes - size)

    def want(self, ready_bytes: int) -> int | None:
        """Bytes to ask for, when a batch has to wait and `ready_bytes` in all are ready to be sent.

        None while a wish is open: a new one would replace it, and what was granted meanwhile would come on top. When it
        is fulfilled, whoever still waits asks again, for all.
        """
        if self._wanted_bytes:
            return None
        self._wanted_bytes = min(max(ready_bytes - self._free_bytes - self._granted_bytes, 1), WANT_BYTES_MAX)
        return self._wanted_bytes
