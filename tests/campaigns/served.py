"""A sandbox in a process of its own: measured from outside, killed, started again on its file."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import requests

PATIENCE_S = 60


@dataclass
class Served:
    """``fundlab sandbox`` on the database file ``db``, always at the same port."""

    db: Path
    options: tuple[str, ...] = ()
    about: dict[str, Any] = field(default_factory=dict, repr=False)

    def start(self) -> None:
        port = self.about["base_url"].rpartition(":")[2] if self.about else "0"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "fundlab", "sandbox", "--db", str(self.db), "--port", port,
             *self.options],
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self.process.stdout is not None
        self.about = json.loads(self.process.stdout.readline())

    def stop(self) -> None:
        self._end(signal.SIGTERM)
        assert self.process.returncode == 0

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def _end(self, by: signal.Signals) -> None:
        self.process.send_signal(by)
        self.process.wait(PATIENCE_S)
        if self.process.stdout is not None:
            self.process.stdout.close()

    def __enter__(self) -> Served:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self.process.poll() is None:
            self.kill()

    @property
    def connection(self) -> dict[str, str]:
        """What ``fundlab.connect`` needs."""
        names = ("base_url", "auth_url", "client_id", "client_secret")
        return {name: self.about[name] for name in names}

    def view(self, name: str) -> Any:
        return self._answer(requests.get(self._url(name), timeout=PATIENCE_S))

    def act(self, action: str, **arguments: Any) -> Any:
        return self._answer(requests.post(self._url(action), json=arguments, timeout=PATIENCE_S))

    def _url(self, name: str) -> str:
        return f"{self.about['control_url']}/{name}"

    @staticmethod
    def _answer(answer: requests.Response) -> Any:
        assert answer.ok, answer.text
        return answer.json()
