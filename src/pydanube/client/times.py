"""Times as users give them: aware datetimes, ISO 8601 text, or microseconds since 1970."""

from datetime import UTC, datetime, timedelta

from pydanube.model.errors import InvalidRequest

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def time_of(time_us: int) -> datetime:
    return EPOCH + timedelta(microseconds=time_us)


def microseconds(time: datetime | int) -> int:
    if isinstance(time, int):
        return time
    if time.tzinfo is None:
        raise InvalidRequest(f"a time needs a time zone, or is given as microseconds since 1970: {time!r}")
    return (time - EPOCH) // timedelta(microseconds=1)


def parse_start(start: str | int | datetime) -> str | int | datetime:
    """`earliest`, `latest`, an offset, or a time."""
    if isinstance(start, datetime):
        microseconds(start)
        return start
    if isinstance(start, int):
        if start < 0:
            raise InvalidRequest(f"an offset is not negative: {start}")
        return start
    if start in ("earliest", "latest"):
        return start
    if start.isdecimal():
        return int(start)
    try:
        time = datetime.fromisoformat(start)
    except ValueError:
        raise InvalidRequest(f"a start is earliest, latest, an offset or an ISO 8601 time, not {start!r}") from None
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


def start_text(start: str | int | datetime) -> str:
    """As the broker reads it."""
    parsed = parse_start(start)
    return parsed.astimezone(UTC).isoformat() if isinstance(parsed, datetime) else str(parsed)
