"""Error codes are promises: they cross the wire and stand in other people's programs."""

from typing import cast

import pytest

from pydanube.model import ERRORS_BY_CODE, DanubeError, Remedy, errors

# Add lines; never change one. A code whose error is gone stays here as a comment, and is not given again.
FROZEN = {
    101: "InvalidName",
    102: "UnknownTopic",
    103: "OffsetOutOfRange",
    104: "InvalidAck",
    105: "UnknownSubscription",
    106: "ProtocolError",
    107: "NotAllowed",
    108: "AlreadyExists",
    109: "TopicMismatch",
    110: "SubscriptionBusy",
    111: "InvalidRequest",
    112: "UnknownNamespace",
    113: "MessageTooLarge",
    114: "AddressUnusable",
    201: "InvalidBatch",
    202: "BatchTooLarge",
    203: "WrongTopic",
    204: "UnsupportedVersion",
    205: "MissingCodec",
    301: "OutOfSequence",
    302: "UnknownProducer",
    303: "ProducerFenced",
    401: "StorageFailed",
    402: "DiskFull",
    403: "DataDamaged",
    404: "DataFolderInUse",
    405: "DataFolderUnusable",
    406: "JournalMismatch",
    407: "StagingFull",
    408: "StagedLost",
    409: "StorageClosed",
    410: "Overloaded",
    501: "MetadataFailed",
    502: "RevisionCompacted",
    503: "LeaseNotFound",
    601: "ConnectionLost",
    602: "BufferFull",
    603: "ClientClosed",
    604: "UsedAfterFork",
}


def test_codes_are_what_they_were() -> None:
    assert {code: kind.__name__ for code, kind in sorted(ERRORS_BY_CODE.items())} == FROZEN


def test_every_error_is_in_the_table() -> None:
    defined = {
        value
        for value in vars(errors).values()
        if isinstance(value, type) and issubclass(value, DanubeError) and value is not DanubeError
    }
    assert set(ERRORS_BY_CODE.values()) == defined


@pytest.mark.parametrize("kind", ERRORS_BY_CODE.values(), ids=lambda kind: kind.__name__)
def test_every_error_says_what_to_do(kind: type[DanubeError]) -> None:
    assert "code" in vars(kind)  # its own, not its parent's
    assert isinstance(kind.remedy, Remedy)
    assert "advice" in vars(kind)
    assert kind.advice
    assert not kind.advice.endswith(".")  # printed behind the message, in one sentence with it


def test_two_errors_cannot_share_a_code() -> None:
    class Root(Exception):  # not a DanubeError: the real tree shall not know of these
        code = 0

    kinds = [type(name, (Root,), {"code": 1}) for name in ("First", "Second")]
    with pytest.raises(ValueError, match="error code 1 is taken"):
        errors._collect(cast("type[DanubeError]", Root))
    assert len(kinds) == 2


def test_remedies_are_what_they_were() -> None:
    assert {remedy.name: remedy.value for remedy in Remedy} == {
        "RETRY": "retry",
        "LOOKUP": "lookup",
        "FIX": "fix",
        "STOP": "stop",
    }
