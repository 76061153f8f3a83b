"""A process that runs epochs like `tailrace run`, but continues after a failed epoch.

python fault_runner.py STORE SMALL CHUNK MASTER
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
import time
from typing import Any

import tailrace as tr
from tailrace.database.inside import inside
from tailrace.epochs.model import Epoch
from tailrace.errors import TailraceError
from tailrace.spark.session import is_running, session
from tailrace.spark.spark_options import SparkOptions

LOST = 3  # the exit code if Spark is lost


def say(*words: Any) -> None:
    print(json.dumps(words), flush=True)


def end_with_the_test() -> None:
    """Ends this process when the test that started it ends, whatever the reason."""
    sys.stdin.read()
    os._exit(1)


def main(path: str, small: str, chunk: str, master: str) -> int:
    threading.Thread(target=end_with_the_test, daemon=True).start()
    spark = session(options=SparkOptions(master=master))
    rng = random.Random(small)
    with tr.open(path, spark=spark) as db:
        inside(db).epochs.jobs.small, inside(db).builder.chunk = int(small), int(chunk)

        def done(epoch: Epoch) -> None:
            inside(db).epochs.overhead = rng.choice(
                [-(10**9), 10**9]
            )  # views with policy `auto`: recompute always, or never
            say("epoch", epoch.number, epoch.cut.transaction)

        say("ready")
        while is_running(spark):
            try:
                db.run(0.05, progress=done)
                return 0
            except TailraceError as error:
                say("failed", str(error))
                time.sleep(0.2)
    return LOST


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
