"""`make simulate SEEDS=N [FIRST=K]`: long runs of the simulator. A failure prints its seed, which replays exactly."""

import argparse
import multiprocessing
import os
import sys
import time
import traceback

from .simulator import run_seed


def _try(seed: int) -> tuple[int, str]:
    try:
        run_seed(seed)
    except BaseException:  # a worker must never die of it: the pool would wait for its answer for ever
        return seed, traceback.format_exc()
    return seed, ""


def main() -> int:
    parser = argparse.ArgumentParser(prog="simulate", description=__doc__)
    parser.add_argument("--seeds", type=int, default=10_000, help="how many seeds to run")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--keep-going", action="store_true", help="do not stop at the first failure")
    arguments = parser.parse_args()
    failures = 0
    started = time.monotonic()
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    with multiprocessing.Pool(os.cpu_count()) as pool:
        for number, (seed, failure) in enumerate(pool.imap_unordered(_try, seeds, chunksize=8), 1):
            if failure:
                failures += 1
                print(f"seed {seed} failed:\n{failure}", flush=True)
                if not arguments.keep_going:
                    return 1
            if number % 500 == 0:
                rate = number / (time.monotonic() - started)
                print(f"{number} of {len(seeds)} seeds, {rate:.0f} a second, {failures} failed", flush=True)
    print(f"{len(seeds)} seeds in {time.monotonic() - started:.0f} s, {failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
