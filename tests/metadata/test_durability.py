"""Real processes that are killed: what was answered is there."""

import asyncio
import random
import subprocess
import sys
from pathlib import Path

from pydanube.metadata import SqliteStore
from pydanube.testing.clock import ManualClock

WRITER = Path(__file__).with_name("writer.py")


def write_until_killed(path: Path, name: str, reports_before: int) -> dict[str, int]:
    """What the process reported; it is killed somewhere behind its n-th report."""
    with subprocess.Popen([sys.executable, str(WRITER), str(path), name], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(reports_before)]
        process.kill()
        lines += process.stdout.readlines()
    whole = [line.split() for line in lines if line.endswith("\n")]
    return {key: int(revision) for key, revision in whole}


async def read_all(path: Path) -> dict[str, int]:
    store = await SqliteStore.open(path, ManualClock())
    kept: dict[str, int] = {}
    more, last = True, ""
    while more:
        page = await store.range("/", after=last)
        kept |= {entry.key: entry.revision for entry in page.entries}
        more, last = page.more, page.entries[-1].key if page.entries else ""
    assert page.revision == max(kept.values())
    assert len(set(kept.values())) == len(kept)
    await store.close()
    return kept


def test_what_was_answered_survives_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    chance = random.Random(4)
    reported: dict[str, int] = {}
    for number in range(10):
        fresh = write_until_killed(path, f"round{number}", chance.randrange(1, 300))
        assert fresh
        reported |= fresh
        kept = asyncio.run(read_all(path))
        assert reported.items() <= kept.items()
