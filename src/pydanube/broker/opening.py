"""Joining a journal and its metadata: who is written first, and what a start reconciles.

Create: metadata first, then the first round that names the id. Delete: the tombstone first, then the round; the
tombstone goes when no journal file mentions the id. The metadata knows the journal's id and a ceiling that offsets
stay below, so that a lost disk is noticed and no offset is given twice even then.
"""

from random import Random

from pydanube.metadata import Entry, MetadataStore, keys
from pydanube.model import Clock, Offset, TopicId
from pydanube.model.errors import JournalMismatch
from pydanube.storage import Done, Files, Finding, Log, Opening, Report, StorageSettings

CEILING_STEP = 1 << 30


async def all_entries(metadata: MetadataStore, prefix: str) -> list[Entry]:
    found: list[Entry] = []
    more = True
    while more:
        page = await metadata.range(prefix, after=found[-1].key if found else "")
        found.extend(page.entries)
        more = page.more
    return found


async def _identity(metadata: MetadataStore, rng: Random, ceiling_step: int) -> tuple[keys.JournalIdentity, int]:
    entry = await metadata.get(keys.JOURNAL_KEY)
    if entry is None:
        identity = keys.journal_identity(rng.randbytes(16), Offset(ceiling_step))
        await metadata.transact(keys.claim_journal(identity))
        entry = await metadata.get(keys.JOURNAL_KEY)
        if entry is None:
            raise JournalMismatch("the metadata store did not keep the journal's identity")
    return keys.decode(entry, keys.JournalIdentity), entry.revision


async def open_log(
    files: Files,
    metadata: MetadataStore,
    settings: StorageSettings,
    clock: Clock,
    rng: Random,
    *,
    disk_lost: bool = False,
    ceiling_step: int = CEILING_STEP,
) -> Log:
    identity, revision = await _identity(metadata, rng, ceiling_step)
    if disk_lost and identity.is_founded:
        ceiling = Offset(identity.ceiling + ceiling_step)
        await metadata.transact(keys.adopt_journal(identity, revision, rng.randbytes(16), ceiling))
        identity, revision = await _identity(metadata, rng, ceiling_step)
    opening = Opening(
        bytes.fromhex(identity.id),
        may_create=not identity.is_founded,
        ceiling=identity.ceiling,
        floor=0 if identity.is_founded else identity.floor,
    )
    log = Log.open(files, settings, clock, rng, opening)
    if not identity.is_founded:
        await metadata.transact(keys.found_journal(identity, revision))
    await raise_ceiling(log, metadata, rng, ceiling_step)
    return log


async def reconcile(log: Log, metadata: MetadataStore, ignore: Done) -> list[int]:
    """Deletes what the metadata has buried, and marks what it does not know; returns these orphans."""
    deleted = [keys.parse_tombstone_key(entry.key) for entry in await all_entries(metadata, keys.TOMBSTONES_PREFIX)]
    alive = [keys.decode(entry, keys.Topic).id for entry in await all_entries(metadata, keys.TOPICS_PREFIX)]
    for topic_id in deleted:
        log.upkeep.delete_topic(topic_id, ignore)
    orphans = log.upkeep.mark_orphans([*alive, *deleted], ignore)
    detail = "the metadata does not know it; it is deleted after a grace time"
    log.reports.extend(Report(Finding.ORPHAN, "the journal", topic_id=topic, detail=detail) for topic in orphans)
    return orphans


async def raise_ceiling(log: Log, metadata: MetadataStore, rng: Random, ceiling_step: int = CEILING_STEP) -> None:
    """In good time: when half a step is left."""
    if log.offset_highest + ceiling_step // 2 > log.ceiling:
        identity, revision = await _identity(metadata, rng, ceiling_step)
        ceiling = Offset(log.offset_highest + ceiling_step)
        result = await metadata.transact(keys.raise_ceiling(identity, revision, ceiling))
        if result.succeeded:
            log.raise_ceiling(ceiling)


async def bury(log: Log, metadata: MetadataStore) -> None:
    """Drops the tombstones of topics that no journal file mentions any more."""
    while log.upkeep.forgotten_topics:
        await metadata.transact(keys.drop_tombstone(TopicId(log.upkeep.forgotten_topics[-1])))
        log.upkeep.forgotten_topics.pop()
