"""One run: a service, three people at two machines, one shared store, and what goes wrong."""

from __future__ import annotations

import hashlib
import json
import logging
import random
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import fundlab as fl
from fundlab.api.client import Client
from fundlab.errors import FundlabError
from fundlab.models import SCOPES
from fundlab.sandbox.app import build_app
from fundlab.sandbox.control import Control
from fundlab.sandbox.database import Database
from fundlab.sandbox.ledger import available
from fundlab.sandbox.movements import Arrival, receive
from fundlab.sandbox.opening import Options, open_service
from tests.simulation import disk as disks
from tests.simulation import oracles
from tests.simulation.environment import BEGIN_NS, NS, Virtual
from tests.simulation.happenings import FAULTS, HOUR, PEOPLE, Happening
from tests.simulation.network import Line
from tests.simulation.schedule import Actor, Killed, Schedule, Wrong

URL: Final = "https://desk.example"
STEPS_A_DAY: Final = 200_000
"""More than any day takes; a run that goes on and on is a failure."""
_RESTART_S: Final = 120
_PATIENCE: Final = 4
_PAUSE_S: Final = 600


@dataclass
class Wish:
    """A payment that somebody wants made, once."""

    number: int
    ref_id: str | None
    amount: str
    paid: set[str] = field(default_factory=set)
    """The transfers that its people were shown."""


@dataclass
class Facts:
    """What the program has said is done, and so must stay."""

    rows: dict[str, str] = field(default_factory=dict)
    """Of the store: when each transfer was last changed, by its id."""
    annotations: set[tuple[str, str]] = field(default_factory=set)
    closed: set[str] = field(default_factory=set)
    reopened: bool = False


class Desk:
    """A run of ``happenings`` in ``root``, which is made; ``trace`` is what anybody could see."""

    def __init__(self, seed: int, days: int, happenings: Sequence[Happening], root: Path) -> None:
        self.seed, self.days, self.root = seed, days, root
        self.trace: list[str] = []
        self.said: list[str] = []
        Virtual.now_ns, Virtual.chance = BEGIN_NS, random.Random(f"chance {seed}")
        self.schedule = Schedule(self.note)
        self.schedule.before_step = self._strike
        Virtual.sleep = self.schedule.sleep
        Virtual.skew_ns = self._skew
        root.mkdir(parents=True)
        self.disk = disks.Disk(root, self.schedule)
        self.disk.fails = self._disk_fails
        self.quiet = False
        self._skews: dict[str, int] = {}
        self._armed: list[tuple[Happening, list[int]]] = []
        self._disk_trouble: tuple[int, int] = (0, 0)
        self._later: list[tuple[int, Callable[[], object]]] = []

        options = Options(
            db=None, seed=seed, transfers=60, profiles=2, signing=False, signing_alg="EdDSA",
            clock="real", empty=False, scopes=SCOPES, signature_header="Service-Signature",
            signature_prefix="service/",
        )  # fmt: skip
        self.service = open_service(Database(None), options)
        self.control, self.app = Control(self.service, options), build_app(self.service)
        self.client_id = self.service.database.get_meta("client_id") or ""
        self.profiles = [
            row[0] for row in self.service.database.all("SELECT id FROM profiles ORDER BY seq")
        ]
        self.secrets: set[str] = set()
        self.wishes: dict[int, Wish] = {}
        self.facts, self.planted = Facts(), False
        people = {name: Person(self, name, happenings) for name in PEOPLE}
        self.people = people
        with self.client("payer") as client:
            self.account = next(
                one.id for one in client.list_fiat_accounts()
                if not one.identity_id and one.status == "APPROVED"
            )  # fmt: skip
        for person in people.values():
            person.actor = Actor(person.name, person.live)
            self.schedule.add(person.actor, BEGIN_NS)
        world = [one for one in happenings if one.who == "world" or one.what in FAULTS]
        self.schedule.add(Actor("world", lambda: self._turn(world)), BEGIN_NS)

    # ------------------------------------------------------------------------------ a run

    def run(self) -> str:
        """The digest of the trace. Raises ``Wrong``, or whatever the program must not raise."""
        logger, before = logging.getLogger("fundlab"), logging.getLogger("fundlab").level
        handler = logging.StreamHandler(_Lines(self.said))  # type: ignore[type-var]
        logger.addHandler(handler)
        logger.setLevel(logging.DEBUG)
        logger.propagate = False
        disks.attach(self.disk)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.schedule.run()
                self.quiet = True
                Virtual.now_ns += 3 * 24 * HOUR
                for _, act in sorted(self._later, key=lambda one: one[0]):
                    act()
                oracles.at_the_end(self)
        finally:
            disks.detach()
            logger.removeHandler(handler)
            logger.setLevel(before)
            Virtual.sleep = lambda _: None
            Virtual.skew_ns = lambda: 0
            self.service.database.close()
        return hashlib.sha256("\n".join(self.trace).encode()).hexdigest()

    def client(self, who: str) -> Client:
        secret = self.service.access.credential(self.client_id).client_secret
        self.secrets.add(secret)
        client = fl.connect(
            base_url=URL, auth_url=URL, client_id=self.client_id, client_secret=secret,
            store=str(self.root / "store"), journal=str(self.root / f"journal-{who}"),
        )  # fmt: skip
        chance = random.Random(f"line {self.seed} {who} {Virtual.now_ns}")
        client.transport._http = Line(  # type: ignore[assignment]
            self.schedule, self.app, self._message, self._do_later, self.control.revoke_tokens,
            chance,
        )  # fmt: skip
        return client

    def store(self) -> fl.Store:
        return fl.Store(self.root / "store")

    def note(self, text: str) -> None:
        self.trace.append(f"{Virtual.now_ns - BEGIN_NS:>18} {text}".replace(str(self.root), "~"))
        if self.schedule.steps > STEPS_A_DAY * self.days:
            raise Wrong(f"after {self.schedule.steps} steps the run does not end")

    # ------------------------------------------------------------------------------ the world

    def _turn(self, happenings: Sequence[Happening]) -> None:
        """What the world does, and what it arms against the others."""
        for one in happenings:
            self.schedule.sleep(max(0, one.at - Virtual.now_ns) / NS)
            due = [late for late in self._later if late[0] <= Virtual.now_ns]
            self._later = [late for late in self._later if late[0] > Virtual.now_ns]
            for _, act in sorted(due, key=lambda late: late[0]):
                act()
            self.note(f"world: {one.what} {one.who}")
            if one.what in ("message", "kill", "cut_power"):
                self._armed.append((one, [one.more["after"], one.more.get("count", 1)]))
            elif one.what in ("full", "failing"):
                number = disks.NO_SPACE if one.what == "full" else disks.FAILING
                self._disk_trouble = number, one.at + one.more["minutes"] * 60 * NS
            elif one.what == "skew":
                self._skews[one.who] = one.more["seconds"] * NS
            elif one.what == "plant":
                self.plant(one.more["cents"])
            elif one.what == "deposit":
                self.deposit(one)
            elif one.what == "rotate":
                self.control.rotate_secret(self.client_id)

    def deposit(self, one: Happening) -> None:
        """Money arrives; where it is late, under a time of before."""
        found = self.service.database.all("SELECT body FROM fiat_deposit_instructions")
        if not found:
            return
        memo = json.loads(found[one.number % len(found)][0])
        with self.control._settled():
            arrival = Arrival(
                memo["customer_id"], fl.models.TransferType.WIRE_DEPOSIT, memo["profile_id"],
                "USD", one.more["cents"] * 10**16, f"instructions:{memo['id']}", {},
            )  # fmt: skip
            receive(self.service.world, arrival, late_s=one.more["late"])

    def plant(self, cents: int) -> None:
        """A balance changes without a transfer: what a reconciliation is for."""
        world, profile = self.service.world, self.profiles[0]
        with self.control._settled():
            world.ledger.post("planted", [
                (available(profile), "USD", -cents * 10**16),
                ("planted", "USD", cents * 10**16),
            ])  # fmt: skip
        self.planted = True

    def _do_later(self, seconds: float, act: Callable[[], object]) -> None:
        self._later.append((Virtual.now_ns + round(seconds * NS), act))

    # ------------------------------------------------------------------------------ faults

    def _skew(self) -> int:
        actor = self.schedule.current
        return 0 if actor is None or self.quiet else self._skews.get(actor.name, 0)

    def _disk_fails(self, what: str) -> int | None:
        number, until = self._disk_trouble
        return number if number and not self.quiet and Virtual.now_ns < until else None

    def _message(self, actor: Actor, asked: str) -> str | None:
        for entry in self._armed:
            one, left = entry
            if one.what != "message" or not asked.startswith(one.more["method"]):
                continue
            if one.who == actor.name:
                if left[0] > 0:
                    left[0] -= 1
                    continue
                left[1] -= 1
                if left[1] == 0:
                    self._armed.remove(entry)
                kind: str = one.more["kind"]
                self.note(f"{actor.name} meets {kind}")
                return kind
        return None

    def _strike(self, actor: Actor, what: str) -> None:
        """Whether somebody ends at this step."""
        if actor.name not in self.people:
            return
        for entry in list(self._armed):
            one, left = entry
            if one.what == "cut_power" or (one.what == "kill" and one.who == actor.name):
                if not what.startswith(one.more["step"]):
                    continue
                left[0] -= 1
                if left[0] >= 0:
                    continue
                self._armed.remove(entry)
                if one.what == "kill":
                    actor.doomed = True
                    continue
                self.note(f"the power goes at {what}")
                self.disk.cut(random.Random(f"cut {self.seed} {one.number}"))
                for person in self.people.values():
                    person.actor.dead = True
                raise Killed


class Person:
    """Somebody at a machine: does what is on the list, and starts again after a crash."""

    def __init__(self, desk: Desk, name: str, happenings: Sequence[Happening]) -> None:
        self.desk, self.name = desk, name
        self.actor: Actor = Actor(name, lambda: None)
        self.list = [one for one in happenings if one.who == name and one.what not in FAULTS]

    def live(self) -> None:
        schedule = self.desk.schedule
        for one in self.list:
            for _ in range(_PATIENCE):
                try:
                    schedule.sleep(max(0, one.at - Virtual.now_ns) / NS)
                    if self.attempt(one):
                        break
                    schedule.sleep(_PAUSE_S)
                except Killed:
                    if schedule.failed:
                        return
                    self.actor.dead = False
                    self.desk.note(f"{self.name} starts again")
                    with suppress(Killed):
                        schedule.sleep(_RESTART_S)

    def attempt(self, one: Happening) -> bool:
        """Whether it is done, as far as this person goes."""
        desk = self.desk
        try:
            with desk.client(self.name) as client:
                getattr(self, one.what)(client, **one.more)
        except FundlabError as error:
            text = f"{type(error).__name__}: {error}"
            desk.said.append(text)
            desk.note(f"{self.name} {one.what}: {text}")
            oracles.refusal(desk, one, error)
            return False
        desk.note(f"{self.name} {one.what}: done")
        return True

    # ------------------------------------------------------------------------------ what is done

    def pay(self, client: Client, intent: int, named: bool) -> None:
        ref_id = f"invoice-{intent}" if named else None
        amount = f"{1 + intent // 100}.{intent % 100:02d}"
        wish = self.desk.wishes.setdefault(intent, Wish(intent, ref_id, amount))
        plan = fl.plan_withdrawal(
            client, profile_id=self.desk.profiles[0], fiat_account_id=self.desk.account,
            amount=wish.amount, ref_id=wish.ref_id, metadata={"intent": str(intent)},
            say=self.desk.said.append,
        )  # fmt: skip
        self.desk.said.append(repr(plan))
        wish.paid.add(plan.submit(plan.code).id)

    def resume(self, client: Client) -> None:
        fl.resume(client, say=self.desk.said.append)

    def sync(self, client: Client, full: bool) -> None:
        store, before = self.desk.store(), oracles.at_the_service(self.desk)
        result = store.sync(client, full=full, progress=False)
        self.desk.said.append(str(result))
        oracles.synced(self.desk, store, before)

    def verify(self, _client: Client) -> None:
        oracles.verified(self.desk, self.desk.store().verify())

    def annotate(self, _client: Client, item: str, comment: str) -> None:
        self.desk.store().annotate(item, comment=comment, by=self.name)
        self.desk.facts.annotations.add((item, comment))

    def close(self, _client: Client, period: str) -> None:
        self.desk.store().close(period, by=self.name, with_breaks="simulated")
        self.desk.facts.closed.add(period)

    def reopen(self, _client: Client, period: str) -> None:
        self.desk.facts.reopened = True
        self.desk.store().reopen(period, by=self.name, reason="simulated")


class _Lines:
    """What is logged, as lines."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines

    def write(self, text: str) -> None:
        self._lines.append(text)

    def flush(self) -> None:
        """Nothing is held back."""
