"""/journal

Which journal the metadata belongs to, and the ceiling: no offset at or above it was ever given. A broker raises the
ceiling before it reaches it, so that after the loss of the disk offsets go on where none was given before.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from pydanube.metadata.transactions import Absent, Put, Transaction, Unchanged
from pydanube.model import Offset

from .records import Record

KEY = "/journal"


class JournalIdentity(Record, frozen=True):
    id: Annotated[str, Meta(pattern="^([0-9a-f]{2})+$")]  # the journal's id, in hex
    ceiling: Offset
    floor: Offset  # where topics begin: above 0 only after the loss of a disk
    is_founded: bool  # whether the journal is on its disk: from then on an empty folder is a lost one


def journal_identity(journal_id: bytes, ceiling: Offset) -> JournalIdentity:
    return JournalIdentity(id=journal_id.hex(), ceiling=ceiling, floor=Offset(0), is_founded=False)


def claim_journal(identity: JournalIdentity) -> Transaction:
    """For the first start; refused if the metadata belongs to a journal already."""
    return Transaction(when=(Absent(KEY),), then=(Put(KEY, identity.encode()),))


def found_journal(current: JournalIdentity, revision: int) -> Transaction:
    """For when the journal's first file is durable."""
    return _replace(revision, msgspec.structs.replace(current, is_founded=True))


def raise_ceiling(current: JournalIdentity, revision: int, ceiling: Offset) -> Transaction:
    if ceiling < current.ceiling:
        raise ValueError(f"the ceiling must not fall from {current.ceiling} to {ceiling}")
    return _replace(revision, msgspec.structs.replace(current, ceiling=ceiling))


def adopt_journal(current: JournalIdentity, revision: int, journal_id: bytes, ceiling: Offset) -> Transaction:
    """For when the disk is lost: another journal takes over, and offsets go on above the old ceiling."""
    if ceiling <= current.ceiling:
        raise ValueError(f"the new ceiling {ceiling} must be above {current.ceiling}")
    return _replace(
        revision, JournalIdentity(id=journal_id.hex(), ceiling=ceiling, floor=current.ceiling, is_founded=False)
    )


def _replace(revision: int, identity: JournalIdentity) -> Transaction:
    return Transaction(when=(Unchanged(KEY, revision),), then=(Put(KEY, identity.encode()),))
