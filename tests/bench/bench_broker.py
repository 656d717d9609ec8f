"""Benchmarks of the broker with its own client, beside a bare ceiling in the same round.

    .venv/bin/python tests/bench/bench_broker.py [--rounds N] [--json]

Broker, producers and consumers are processes of their own (`danube bench …`, which checks what it moved). Ratios are
taken inside one round; medians over rounds.
"""

import argparse
import asyncio
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import uvloop

import pydanube
from pydanube.cli.launch import BrokerProcess

CEILING = [sys.executable, "-m", "tests.bench.ceiling.network"]
SIZES = {128: (2000, 3_000_000), 1024: (250, 600_000)}  # messages a batch, messages


def danube_bench(*arguments: object) -> dict[str, float]:
    command = [sys.executable, "-m", "pydanube.cli", "bench", *map(str, arguments), "--json"]
    found = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    return dict(json.loads(found.stdout))


@contextlib.contextmanager
def ceiling() -> Iterator[int]:
    folder = tempfile.mkdtemp()
    process = subprocess.Popen([*CEILING, "serve", folder], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        shutil.rmtree(folder)


def ceiling_publish(size: int, batch: int, count: int) -> float:
    with ceiling() as port:
        command = [*CEILING, "publish", *map(str, (port, count, size, batch))]
        found = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    return float(json.loads(found.stdout)["messages_per_second"])


def ceiling_end_to_end(size: int, batch: int, count: int) -> float:
    with ceiling() as port:
        consumer = subprocess.Popen([*CEILING, "consume", str(port), str(count)], stdout=subprocess.PIPE, text=True)
        assert consumer.stdout is not None
        consumer.stdout.readline()
        command = [*CEILING, "publish", *map(str, (port, count, size, batch))]
        subprocess.run(command, check=True, capture_output=True, timeout=60)
        answer = consumer.stdout.readline()
        consumer.wait(60)
        consumer.stdout.close()
    return float(json.loads(answer)["messages_per_second"])


def throughput(rounds: int) -> dict[str, Any]:
    results: dict[str, Any] = {}
    for size, (batch, count) in SIZES.items():
        work: dict[str, Callable[[], float]] = {
            "ceiling publish": lambda s=size, b=batch, c=count: ceiling_publish(s, b, c),  # type: ignore[misc]
            "ceiling end to end": lambda s=size, b=batch, c=count: ceiling_end_to_end(s, b, c),  # type: ignore[misc]
        }
        for name, extra in (("publish", ()), ("publish memory", ("--durability", "memory")), ("consume", ())):
            kind = name.split()[0]
            some = min(count, (128 << 20) // size) if extra else count  # topics in memory have 256 MiB
            work[name] = lambda k=kind, e=extra, s=size, b=batch, c=some: danube_bench(  # type: ignore[misc]
                k, "--size", s, "--batch", b, "--count", c, *e
            )["messages_per_second"]
        work["end to end"] = lambda s=size, b=batch, c=count: danube_bench(  # type: ignore[misc]
            "end-to-end", "--size", s, "--batch", b, "--count", c
        )["messages_per_second"]
        figures: dict[str, list[float]] = {name: [] for name in work}
        for number in range(rounds):
            order = list(work)
            shift = number % len(order)
            for name in order[shift:] + order[:shift]:
                os.sync()
                figures[name].append(work[name]())
        for name, values in figures.items():
            results[f"{name}, {size} B, messages/s"] = statistics.median(values)
        for name in ("publish", "end to end"):
            pairs = zip(figures[name], figures[f"ceiling {name}"], strict=True)
            results[f"{name} ÷ ceiling, {size} B"] = statistics.median(ours / other for ours, other in pairs)
    return results


async def _publish_to(url: str, topics: int) -> float:
    """Messages/s of 1 KiB in batches of 16, round robin over so many topics, all by one client."""
    batches = 20_000
    async with pydanube.connect(url) as client:
        producers = [await client.producer(f"/default/spread-{topics}-{number}") for number in range(topics)]
        payloads = [bytes(1024)] * 16
        pending: set[asyncio.Future[Any]] = set()
        started = time.perf_counter()
        for number in range(batches):
            pending.add(asyncio.ensure_future(producers[number % topics].send_many(payloads)))
            if len(pending) >= 256:
                _, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.gather(*pending)
        elapsed = time.perf_counter() - started
        ends = [await client.offsets(f"/default/spread-{topics}-{number}") for number in range(topics)]
        stored = sum(end[0].latest for end in ends)
        if stored != 16 * batches:
            raise SystemExit(f"{stored} messages are stored, {16 * batches} were sent")
        return 16 * batches / elapsed


def many_topics(rounds: int) -> dict[str, Any]:
    rates: dict[int, list[float]] = {1: [], 1000: []}
    for _ in range(rounds):
        for topics, found in rates.items():
            with _own_broker() as broker:
                found.append(uvloop.run(_publish_to(broker.url, topics)))
    ratios = [many / one for one, many in zip(rates[1], rates[1000], strict=True)]
    return {
        "one topic, 1 KiB, 16 a batch, messages/s": statistics.median(rates[1]),
        "1,000 topics, same bytes, messages/s": statistics.median(rates[1000]),
        "1,000 ÷ one": statistics.median(ratios),
    }


async def _one_by_one(url: str) -> dict[str, float]:
    async with pydanube.connect(url) as client:
        producer = await client.producer("/default/single")
        results: dict[str, float] = {}
        started = time.perf_counter()
        for _ in range(3000):
            await producer.send(b"x" * 128)
        results["send, 1 in flight, messages/s"] = 3000 / (time.perf_counter() - started)

        async def send() -> None:
            for _ in range(1500):
                await producer.send(b"x" * 128)

        started = time.perf_counter()
        await asyncio.gather(*(send() for _ in range(64)))
        results["send, 64 in flight, messages/s"] = 96_000 / (time.perf_counter() - started)
        started = time.perf_counter()
        for number in range(1_000_000):
            while True:
                try:
                    producer.post(b"x" * 128)
                    break
                except pydanube.BufferFull:
                    await asyncio.sleep(0)
            if number % 1000 == 0:
                await asyncio.sleep(0)
        await producer.flush()
        results["post, messages/s"] = 1_000_000 / (time.perf_counter() - started)
        end = (await client.offsets("/default/single"))[0].latest
        if end != 1_099_000:
            raise SystemExit(f"{end} messages are stored, 1,099,000 were sent")
        return results


def one_by_one() -> dict[str, float]:
    with _own_broker() as broker:
        return uvloop.run(_one_by_one(broker.url))


async def _subscribers(url: str, count: int, *, stalled: bool) -> float:
    """Publish rate with so many subscribers on the topic (in this process), or one that never reads."""
    topic = f"/default/subs-{count}-{int(stalled)}"
    async with pydanube.connect(url) as client:
        await (await client.producer(topic)).close()
        consumers = [await client.subscribe(topic, f"s{number}", start="latest") for number in range(count)]
        found = await asyncio.to_thread(_publish_elsewhere, url, topic)
        for consumer in consumers:
            await consumer.close()
        return found


def _publish_elsewhere(url: str, topic: str) -> float:
    program = (
        "import asyncio, sys, time, pydanube\n"
        "async def main():\n"
        "    async with pydanube.connect(sys.argv[1]) as client:\n"
        "        producer = await client.producer(sys.argv[2])\n"
        "        payloads = [b'x' * 1024] * 250\n"
        "        started = time.perf_counter()\n"
        "        pending = set()\n"
        "        for _ in range(1200):\n"
        "            pending.add(asyncio.ensure_future(producer.send_many(payloads)))\n"
        "            if len(pending) >= 32:\n"
        "                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)\n"
        "        await asyncio.gather(*pending)\n"
        "        print(300_000 / (time.perf_counter() - started))\n"
        "asyncio.run(main())\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", program, url, topic], check=True, capture_output=True, text=True, timeout=60
    )
    return float(found.stdout)


def subscribers(rounds: int) -> dict[str, float]:
    """Consumers that take no messages: what counts is whether the publisher notices them."""
    with _own_broker() as broker:
        rates: dict[str, list[float]] = {}
        for _ in range(rounds):
            for name, count in (("0", 0), ("1 that never reads", 1), ("16 that never read", 16)):
                rates.setdefault(name, []).append(asyncio.run(_subscribers(broker.url, count, stalled=count > 0)))
    base = rates["0"]
    results = {f"publish, {name} subscribers, messages/s": statistics.median(values) for name, values in rates.items()}
    for name, values in rates.items():
        if name != "0":
            pairs = zip(values, base, strict=True)
            results[f"with {name} ÷ with none"] = statistics.median(with_ / none for with_, none in pairs)
    return results


@contextlib.contextmanager
def _own_broker() -> Iterator[BrokerProcess]:
    folder = Path(tempfile.mkdtemp())
    broker = BrokerProcess(folder / "data")
    try:
        yield broker
    finally:
        broker.kill()
        shutil.rmtree(folder)


def _rss_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def _make_topics(url: str, count: int) -> float:
    async with pydanube.connect(url) as client:
        started = time.perf_counter()
        for first in range(0, count, 100):
            await asyncio.gather(*(_one_message(client, number) for number in range(first, first + 100)))
        return time.perf_counter() - started


async def _one_message(client: pydanube.Client, number: int) -> None:
    producer = await client.producer(f"/default/many-{number}")
    await producer.send(b"x")
    await producer.close()


async def _first_ack(url: str) -> None:
    async with pydanube.connect(url) as client:
        producer = await client.producer("/default/many-0")
        await producer.send(b"x")


def ten_thousand_topics() -> dict[str, float]:
    folder = Path(tempfile.mkdtemp())
    results: dict[str, float] = {}
    started = time.perf_counter()
    broker = BrokerProcess(folder / "data")
    results["start, empty folder, s"] = time.perf_counter() - started
    results["memory at start, MB"] = _rss_mb(broker.pid)
    results["create 10,000 topics and publish one message to each, s"] = asyncio.run(_make_topics(broker.url, 10_000))
    results["memory with 10,000 topics, MB"] = _rss_mb(broker.pid)
    before = _cpu_seconds(broker.pid)
    time.sleep(10)
    results["idle CPU with 10,000 topics, %"] = (_cpu_seconds(broker.pid) - before) * 10
    broker.kill()
    started = time.perf_counter()
    broker = BrokerProcess(folder / "data")
    asyncio.run(_first_ack(broker.url))
    results["killed; start to first ack with 10,000 topics, s"] = time.perf_counter() - started
    broker.kill()
    shutil.rmtree(folder)
    return results


def latency() -> dict[str, float]:
    alone = danube_bench("latency", "--size", 128)
    return {f"latency at 1,000 messages/s, {key}": alone[key] for key in ("p50_ms", "p99_ms", "p99_9_ms")}


def import_time() -> dict[str, float]:
    started = time.perf_counter()
    for _ in range(5):
        subprocess.run([sys.executable, "-c", "import pydanube"], check=True)
    whole = (time.perf_counter() - started) / 5
    started = time.perf_counter()
    for _ in range(5):
        subprocess.run([sys.executable, "-c", "import asyncio"], check=True)
    return {"import pydanube, s": whole, "of it Python with asyncio, s": (time.perf_counter() - started) / 5}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", help="one of the parts, by its name")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    results: dict[str, Any] = {}
    for name, work in (
        ("throughput", lambda: throughput(arguments.rounds)),
        ("many topics", lambda: many_topics(arguments.rounds)),
        ("one by one", one_by_one),
        ("subscribers", lambda: subscribers(arguments.rounds)),
        ("latency", latency),
        ("10,000 topics", ten_thousand_topics),
        ("import", import_time),
    ):
        if arguments.only not in (None, name):
            continue
        print(f"… {name}", file=sys.stderr, flush=True)
        results[name] = work()
        for key, value in results[name].items():
            print(f"    {key:60} {value:14,.2f}", file=sys.stderr, flush=True)
    if arguments.json:
        print(json.dumps(results, indent=2))
        return
    for name, figures in results.items():
        print(name)
        for key, value in figures.items():
            print(f"    {key:60} {value:14,.2f}")


if __name__ == "__main__":
    main()
