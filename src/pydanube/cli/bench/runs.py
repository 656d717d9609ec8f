"""The runs: which workers there are, and what their results amount to."""

import subprocess
import sys
from collections.abc import Iterable, Sequence
from secrets import token_hex
from typing import NamedTuple

import msgspec

import pydanube
from pydanube.cli.errors import Refused
from pydanube.cli.target import run

from .figures import Figures, make_figures
from .worker import Result, Task

ACKNOWLEDGED = {"fsync": "acknowledgement of a batch, on disk", "memory": "acknowledgement of a batch, in memory"}
ARRIVED = "sent to received"


class Load(NamedTuple):
    url: str
    size: int
    messages: int  # all producers together
    batch: int
    producers: int
    consumers: int
    topics: int
    durability: str
    compression: str | None
    rate: int

    @property
    def each(self) -> int:
        return max(1, self.messages // self.producers)


class Workers:
    """Processes that are made ready one by one and begin together."""

    def __init__(self, tasks: Iterable[Task]) -> None:
        self._processes: list[subprocess.Popen[str]] = []
        try:
            for task in tasks:
                command = [sys.executable, "-m", "pydanube.cli.bench.worker", msgspec.json.encode(task).decode()]
                self._processes.append(
                    subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
                )
            for process in self._processes:
                self._line(process)
        except BaseException:
            self.kill()
            raise

    def _line(self, process: "subprocess.Popen[str]") -> str:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise Refused("a worker of the bench has ended too early", "its own message is above")
        if line.startswith("{"):  # it has ended before it began
            self._check(msgspec.json.decode(line, type=Result))
        return line

    def begin(self) -> None:
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()

    def results(self) -> list[Result]:
        try:
            found = []
            for process in self._processes:
                assert process.stdout is not None
                line = process.stdout.readline()
                if not line:
                    raise Refused("a worker of the bench has ended too early", "its own message is above")
                found.append(msgspec.json.decode(line, type=Result))
            for result in found:
                self._check(result)
            return found
        finally:
            self.kill()

    def _check(self, result: Result) -> None:
        if result.wrong is not None:
            raise Refused(f"the bench has failed: {result.wrong}", "no figures are shown for a run that is not right")

    def kill(self) -> None:
        for process in self._processes:
            process.kill()
            process.communicate()


class Bench:
    """On topics of its own, which are deleted behind it."""

    def __init__(self, load: Load) -> None:
        self.load = load
        name = token_hex(4)
        self._topics = [f"/default/bench-{name}-{number}" for number in range(load.topics)]

    def run(self, work: str) -> Figures:
        works = {
            "publish": self._publish,
            "consume": self._consume,
            "end-to-end": self._end_to_end,
            "latency": self._latency,
        }
        run(self._create())
        try:
            return works[work]()
        finally:
            run(self._delete())

    async def _create(self) -> None:
        async with pydanube.connect(self.load.url) as client:
            for topic in self._topics:
                await client.create_topic(topic, durability=self.load.durability)

    async def _delete(self) -> None:
        async with pydanube.connect(self.load.url) as client:
            for topic in self._topics:
                await client.delete_topic(topic)

    def _task(self, work: str, number: int, producers: list[int], **more: object) -> Task:
        load = self.load
        topic = self._topics[number % load.topics]
        made = Task(work, load.url, topic, load.size, load.each, load.batch, producers)
        made = msgspec.structs.replace(made, durability=load.durability, compression=load.compression, rate=load.rate)
        return msgspec.structs.replace(made, **more)

    def _producers(self) -> list[Task]:
        return [self._task("produce", number, [number]) for number in range(self.load.producers)]

    def _consumers(self, count: int, subscription: str) -> list[Task]:
        """Each with a subscription of its own, so that each gets everything of its topic."""
        by_topic = [list(range(topic, self.load.producers, self.load.topics)) for topic in range(self.load.topics)]
        return [
            self._task("consume", number, by_topic[number % self.load.topics], subscription=f"{subscription}-{number}")
            for number in range(count)
        ]

    def _publish(self) -> Figures:
        workers = Workers(self._producers())
        workers.begin()
        results = workers.results()
        self._drain("check", self.load.topics)
        latencies = [each for result in results for each in result.latencies_ms]
        return self._figures("publish", results, results, latencies, ACKNOWLEDGED[self.load.durability])

    def _consume(self) -> Figures:
        filling = Workers(self._producers())
        filling.begin()
        filling.results()
        results = self._drain("bench", self.load.consumers)
        return self._figures("consume", results, results)

    def _drain(self, subscription: str, count: int) -> list[Result]:
        workers = Workers(self._consumers(count, subscription))
        workers.begin()
        return workers.results()

    def _end_to_end(self) -> Figures:
        consuming = Workers(self._consumers(self.load.consumers, "bench"))
        try:
            producing = Workers(self._producers())
            consuming.begin()
            producing.begin()
            sent = producing.results()
            received = consuming.results()
        finally:
            consuming.kill()
        latencies = [each for result in sent for each in result.latencies_ms]
        return self._figures("end-to-end", sent, received, latencies, ACKNOWLEDGED[self.load.durability])

    def _latency(self) -> Figures:
        workers = Workers([self._task("latency", 0, [0])])
        workers.begin()
        (result,) = workers.results()
        return self._figures("latency", [result], [result], result.latencies_ms, ARRIVED)

    def _figures(
        self, work: str, first: list[Result], last: list[Result], latencies_ms: Sequence[float] = (), of: str = ""
    ) -> Figures:
        seconds = max(each.ended for each in last) - min(each.started for each in first)
        messages = sum(each.messages for each in last)
        return make_figures(work, messages, self.load.size, seconds, latencies_ms, of)
