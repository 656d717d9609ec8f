"""A disk that fills up under a running broker: publishers hear it, readers and acks do not notice, and it passes."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.broker.raw import RawClient

from pydanube.model.errors import DiskFull
from pydanube.wire import Kind, messages

MOUNT = 'mount -t tmpfs -o size=160m tmpfs "$0" && exec "$@"'


def _may_mount(folder: Path) -> bool:
    if shutil.which("unshare") is None:
        return False
    tried = subprocess.run(["unshare", "-rm", "sh", "-c", MOUNT, str(folder), "true"], capture_output=True, check=False)
    return tried.returncode == 0


class SmallDisk:
    """A broker whose data folder is a small file system that only it and we can see."""

    def __init__(self, folder: Path) -> None:
        serve = [sys.executable, "-m", "pydanube.cli", "serve", "--data-dir", str(folder / "data")]
        self._process = subprocess.Popen(
            ["unshare", "-rm", "sh", "-c", MOUNT, str(folder), *serve, "--native-port", "0", "--http-port", "0"],
            env={**os.environ, "DANUBE_JOURNAL_FILE_BYTES": "16MiB"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert self._process.stdout is not None
        said = []
        for line in self._process.stdout:
            said.append(line)
            if " is up." in line:
                break
        else:
            pytest.fail(f"the broker did not start: {said}")
        self.inside = Path(f"/proc/{self._process.pid}/root{folder}")  # the folder as the broker sees it
        self.port = int(json.loads((self.inside / "data" / "ports.json").read_text())["native"])

    def fill(self) -> None:
        stat = os.statvfs(self.inside)
        (self.inside / "filler").write_bytes(bytes(stat.f_bavail * stat.f_frsize - (1 << 20)))

    def free(self) -> None:
        (self.inside / "filler").unlink()

    def close(self) -> None:
        self._process.kill()
        self._process.wait(10)
        assert self._process.stdout is not None
        self._process.stdout.close()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    if not _may_mount(tmp_path):
        if os.environ.get("CI") == "true":
            pytest.fail("a mount namespace is needed: unshare (Debian's util-linux) and the right to use it")
        pytest.skip("needs unshare (Debian's util-linux) and the right to mount a tmpfs in a namespace")
    found = SmallDisk(tmp_path)
    yield found
    found.close()


def _publish_until_refused(client: RawClient, producer: messages.ProducerOpen) -> tuple[int, bytearray]:
    """The end of the topic, and the batch that found no room."""
    end = 0
    for _ in range(3000):
        batch = client.encode(producer, [bytes(60_000)])
        try:
            end = client.publish_batch(producer, batch) + 1
        except DiskFull:
            return end, batch
    pytest.fail("the disk did not fill up")


def test_a_full_disk_refuses_batches_and_nothing_else(disk: SmallDisk) -> None:
    with RawClient(disk.port) as client:
        producer = client.producer("a")
        assert client.publish(producer, [b"0", b"1", b"2"]) == 0
        consumer = client.subscribe("a", "s", credit=1)
        client.expect(Kind.DELIVER)
        disk.fill()
        stored, refused = _publish_until_refused(client, producer)
        assert stored > 3
        for offset in range(3):  # acks are durable all the same
            client.ack(consumer, (offset, offset + 1))
        fetched = client.ask(Kind.FETCH, messages.Fetch("a", 0, 0, 1000), messages.Fetched)
        assert (fetched.first, fetched.latest) == (0, stored)
        with pytest.raises(DiskFull):
            client.publish_batch(producer, refused)
        disk.free()
        assert client.publish_batch(producer, refused) == stored  # by itself, and nothing was left out
        facts = client.admin(messages.DescribeSubscription("a", "s"))["partitions"]
        assert isinstance(facts, list)
        assert facts[0]["position"] == 3
