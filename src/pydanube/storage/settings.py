"""Storage settings: data, validated once."""

from dataclasses import dataclass

from pydanube.model.limits import (
    CACHE_BYTES,
    FRAME_BYTES_MAX,
    INDEX_STRIDE_BYTES,
    JOURNAL_FILE_BYTES,
    LEDGER_BYTES_MAX,
    MIB,
    ROUND_BYTES_MAX,
    STAGING_BYTES_MAX,
)

HOUR_US = 3600 * 1_000_000
DAY_US = 24 * HOUR_US


@dataclass(frozen=True)
class StorageSettings:
    file_bytes: int = JOURNAL_FILE_BYTES
    file_age_us: int = HOUR_US
    round_bytes: int = ROUND_BYTES_MAX
    reserve_bytes: int = 32 * MIB  # kept free for cursors, checkpoints and metadata when the disk is full
    pending_bytes: int = 4 * ROUND_BYTES_MAX + FRAME_BYTES_MAX  # accepted and not yet durable
    ledger_bytes: int = LEDGER_BYTES_MAX
    ledger_age_us: int = HOUR_US
    cache_bytes: int = CACHE_BYTES
    staging_bytes: int = STAGING_BYTES_MAX
    index_stride_bytes: int = INDEX_STRIDE_BYTES
    writer_forget_us: int = 30 * DAY_US
    producer_forget_us: int = 7 * DAY_US
    orphan_grace_us: int = 7 * DAY_US

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value <= 0:
                raise ValueError(f"{name} must be above zero, not {value}")
        if self.file_bytes < 2 * self.round_bytes:
            raise ValueError("file_bytes must be at least twice round_bytes")

    @property
    def file_bytes_min(self) -> int:
        """A nearly full disk gets smaller files, down to this; then batches are refused."""
        return max(self.file_bytes // 16, self.round_bytes // 2)
