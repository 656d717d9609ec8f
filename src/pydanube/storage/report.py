"""What recovery and checks found: plain values that print as one sentence each."""

from enum import Enum

import msgspec


class Finding(Enum):
    TORN_TAIL = "torn tail"  # never acknowledged: cut off
    CORRUPTION = "corruption"  # was durable: lost, or repaired where it says so
    REPAIRED = "repaired"  # damaged in one of two copies, nothing lost
    MISSING_FILE = "missing file"
    CHECKPOINT = "damaged checkpoint"
    INDEX = "damaged index"
    ORPHAN = "orphan topic"


class Report(msgspec.Struct, frozen=True):
    finding: Finding
    file: str
    first_byte: int = 0
    end_byte: int = 0
    round_number: int | None = None
    topic_id: int | None = None
    first_offset: int | None = None
    end_offset: int | None = None
    detail: str = ""

    def __str__(self) -> str:
        parts = [f"{self.finding.value} in {self.file}"]
        if self.end_byte:
            parts.append(f"bytes {self.first_byte} to {self.end_byte}")
        if self.round_number is not None:
            parts.append(f"round {self.round_number}")
        if self.topic_id is not None:
            parts.append(f"topic {self.topic_id:016x}")
        if self.first_offset is not None:
            parts.append(f"offsets {self.first_offset} to {self.end_offset}")
        if self.detail:
            parts.append(self.detail)
        return ", ".join(parts)
