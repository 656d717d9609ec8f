"""A process that puts and reports each put when it was answered, until it is killed."""

import asyncio
import sys
from pathlib import Path

from pydanube.metadata import SqliteStore
from pydanube.model import SystemClock


async def main(path: Path, name: str) -> None:
    store = await SqliteStore.open(path, SystemClock())

    async def write(writer: int) -> None:
        number = 0
        while True:
            key = f"/{name}/{writer}/{number}"
            revision = await store.put(key, bytes(number % 500))
            sys.stdout.write(f"{key} {revision}\n")
            sys.stdout.flush()
            number += 1

    await asyncio.gather(*(write(writer) for writer in range(8)))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
