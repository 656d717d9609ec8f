"""Leases and their deadlines. The time is an argument; what a lease holds is somebody else's business."""

from pydanube.model.errors import LeaseNotFound


class Leases:
    def __init__(self) -> None:
        self._ttl_us: dict[int, int] = {}
        self._deadline_us: dict[int, int] = {}
        # No deadline is earlier than this, so that asking before every operation costs one comparison.
        self._look_again_us: int | None = None

    def __contains__(self, lease: int) -> bool:
        return lease in self._ttl_us

    def require(self, lease: int) -> None:
        if lease not in self:
            raise LeaseNotFound(f"there is no lease {lease}: it has expired, was revoked or was never granted")

    def add(self, lease: int, ttl_us: int, now_us: int) -> None:
        self._ttl_us[lease] = ttl_us
        self._set_deadline(lease, now_us + ttl_us)

    def keep_alive(self, lease: int, now_us: int) -> None:
        self.require(lease)
        self._set_deadline(lease, now_us + self._ttl_us[lease])

    def remove(self, lease: int) -> None:
        self.require(lease)
        del self._ttl_us[lease], self._deadline_us[lease]

    def due(self, now_us: int) -> list[int]:
        """The leases that have expired, in the order in which they did."""
        if self._look_again_us is None or now_us < self._look_again_us:
            return []
        due = sorted((deadline, lease) for lease, deadline in self._deadline_us.items() if deadline <= now_us)
        self._look_again_us = min(self._deadline_us.values(), default=None)
        return [lease for _, lease in due]

    @property
    def look_again_us(self) -> int | None:
        """When `due` may have an answer next, or None if there are no leases."""
        return self._look_again_us

    def _set_deadline(self, lease: int, deadline_us: int) -> None:
        self._deadline_us[lease] = deadline_us
        if self._look_again_us is None or deadline_us < self._look_again_us:
            self._look_again_us = deadline_us
