"""What a data folder holds, as plain values for people and programs."""

import msgspec

from .ledger import TopicState
from .report import Finding, Report
from .state import JournalState

HARMLESS = (Finding.TORN_TAIL,)


class FileFacts(msgspec.Struct):
    name: str
    size_bytes: int
    used_bytes: int  # up to the end of the last round
    rounds: int
    entries: int
    first_round: int | None
    last_round: int | None
    created_us: int | None
    index: str  # of its sidecar: whole, damaged or missing


class CheckpointFacts(msgspec.Struct, frozen=True):
    name: str
    size_bytes: int
    is_whole: bool
    round_number: int | None = None
    file_number: int | None = None  # where recovery goes on from it
    position: int | None = None
    time_us: int | None = None


class LedgerFacts(msgspec.Struct, frozen=True):
    first_offset: int
    end_offset: int
    epoch: int
    bytes: int
    first_file: int
    last_file: int
    closed: bool


class CursorFacts(msgspec.Struct, frozen=True):
    subscription_id: int
    generation: int
    position: int
    ranges_above: list[tuple[int, int]]


class ProducerFacts(msgspec.Struct, frozen=True):
    producer_id: int
    epoch: int
    next_sequence: int


class TopicFacts(msgspec.Struct, frozen=True):
    topic_id: int
    first_offset: int
    end_offset: int
    bytes: int
    ledgers: list[LedgerFacts]
    lost: list[tuple[int, int]]
    cursors: list[CursorFacts]
    producers: list[ProducerFacts]
    parked_batches: int
    parked_bytes: int


class OtherFile(msgspec.Struct, frozen=True):
    name: str
    size_bytes: int


class Inspection(msgspec.Struct):
    journal_id: str
    in_use: bool
    files: list[FileFacts]
    checkpoints: list[CheckpointFacts]
    topics: list[TopicFacts]
    deleted_topics: int
    other_files: list[OtherFile]
    findings: list[Report]

    @property
    def is_whole(self) -> bool:
        """A torn tail is no damage: it was never acknowledged, and the next start cuts it off."""
        return all(report.finding in HARMLESS for report in self.findings)


def topic_facts(state: JournalState) -> list[TopicFacts]:
    parked: dict[int, list[int]] = {}
    for waiting in state.parked.values():
        parked.setdefault(waiting.topic_id, []).append(waiting.length)
    return [_topic_facts(topic, parked.get(topic_id, [])) for topic_id, topic in sorted(state.topics.items())]


def _topic_facts(topic: TopicState, parked_lengths: list[int]) -> TopicFacts:
    return TopicFacts(
        topic.topic_id,
        topic.first,
        topic.end,
        sum(ledger.bytes for ledger in topic.ledgers),
        [
            LedgerFacts(each.first, each.end, each.epoch, each.bytes, each.first_file, each.last_file, each.closed)
            for each in topic.ledgers
        ],
        topic.gaps.items(),
        [
            CursorFacts(number, cursor.generation, cursor.position, cursor.above.items())
            for number, cursor in topic.cursors.items()
        ],
        [ProducerFacts(each.producer_id, each.epoch, each.next_sequence) for each in topic.producers.values()],
        len(parked_lengths),
        sum(parked_lengths),
    )
