"""What `flush` raises: everything that could not be published since the last one."""

from collections.abc import Sequence

from pydanube.model.errors import DanubeError, Remedy


class PublishErrors(DanubeError, ExceptionGroup[DanubeError]):
    """Messages that were posted and not stored. Each error names a topic and how many messages it concerns."""

    code, remedy = 605, Remedy.RETRY
    advice = "look at the errors in it; what they name was not stored and can be sent again"

    def derive(self, errors: Sequence[DanubeError]) -> "PublishErrors":  # type: ignore[override]
        return PublishErrors(self.message, errors)


class Failures:
    """Errors until somebody asks for them, bounded: the first ones in full, of the others the number of messages."""

    ERRORS_MAX = 100

    def __init__(self) -> None:
        self._errors: list[DanubeError] = []
        self._messages = 0

    def add(self, topic: str, messages: int, error: DanubeError) -> None:
        self._messages += messages
        if len(self._errors) < self.ERRORS_MAX:
            self._errors.append(type(error)(f"{messages} messages to {topic}: {error}"))

    def take(self) -> PublishErrors | None:
        """All of them as one error; None when there is none."""
        if not self._errors:
            return None
        group = PublishErrors(f"{self._messages} messages were not published", self._errors)
        self._errors, self._messages = [], 0
        return group
