"""A client that pays and is killed over and over; it notes what it means to do before doing it.

Run as a program with the path of its instructions (JSON). It forks a payer, waits, and forks
another wherever the last one died, until one has carried everything out. The journal has a line
``intent N`` before and ``made N ID`` after each payment, and ``killed WHERE`` before each death.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from fundlab.base import errors
from fundlab.client import http as fundlab_http
from fundlab.client.client import Client
from fundlab.settings.settings import Settings

sys.path.insert(0, str(Path(__file__).parents[1]))
from scripted import skipping

PASSING = (errors.NetworkError, errors.ProtocolError, errors.Unavailable, errors.RateLimited)
THREADS = 4


def amount(number: int) -> str:
    return f"{1 + number % 50}.{number % 10}0"


class Payer:
    def __init__(self, instructions: dict[str, Any], life: int) -> None:
        self.given = instructions
        self.journal = os.open(instructions["journal"], os.O_APPEND | os.O_CREAT | os.O_WRONLY)
        self.draw = random.Random(f"{instructions['seed']} {life}")
        self.lock = threading.Lock()

    def run(self) -> None:
        noted = Path(self.given["journal"]).read_text(encoding="ascii").split("\n")
        lines = [line.split() for line in noted if line]
        made = {int(line[1]) for line in lines if line[0] == "made"}
        left = [number for number in range(self.given["count"]) if number not in made]
        intended = {int(line[1]) for line in lines if line[0] == "intent"}
        self.die_while_waiting_for_answers()
        settings = Settings.load(environ={}, **self.given["settings"])
        with (
            Client(settings, environment=skipping()) as client,
            ThreadPoolExecutor(THREADS) as pool,
        ):
            for done in [pool.submit(self.pay, client, n, n in intended) for n in left]:
                done.result()

    def pay(self, client: Client, number: int, intended: bool) -> None:
        if not intended:
            self.note(f"intent {number}")
        self.maybe_die("before sending")
        while True:
            try:
                transfer = client.create_fiat_withdrawal(
                    ref_id=f"intent-{number}", amount=amount(number), **self.given["arguments"]
                )
            except PASSING:
                continue  # as a user would: again, with the same ref_id
            break
        self.maybe_die("before noting the answer")
        self.note(f"made {number} {transfer.id}")

    def die_while_waiting_for_answers(self) -> None:
        begin = fundlab_http._Response.begin

        def begin_or_die(response: Any) -> None:
            self.maybe_die("before reading the answer")
            begin(response)

        fundlab_http._Response.begin = begin_or_die  # type: ignore[method-assign]

    def note(self, line: str) -> None:
        os.write(self.journal, f"{line}\n".encode())

    def maybe_die(self, where: str) -> None:
        with self.lock:
            if self.draw.random() < self.given["deadliness"]:
                self.note(f"killed {where}")
                os.kill(os.getpid(), signal.SIGKILL)


def main(path: str) -> int:
    instructions = json.loads(Path(path).read_text(encoding="utf-8"))
    Path(instructions["journal"]).touch()
    life = 0
    while True:
        child = os.fork()
        if child == 0:
            Payer(instructions, life).run()
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            return os.waitstatus_to_exitcode(status)
        life += 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
