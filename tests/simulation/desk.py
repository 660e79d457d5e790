"""One run: a service, three people at two machines, one shared store, and what goes wrong."""

from __future__ import annotations

import copy
import hashlib
import io
import json
import logging
import os
import random
import shutil
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast

import pandas as pd
import typer
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

import fundlab as fl
from fundlab import cli
from fundlab.base.errors import ActionRefused, CloseRefused, FundlabError, StoreLocked
from fundlab.client import client as clients
from fundlab.client.client import Client
from fundlab.client.http import Answer
from fundlab.client.signing import EdSigner
from fundlab.models import SCOPES
from fundlab.operate import store as facade
from fundlab.payments import approvals
from fundlab.sandbox.app import build_app
from fundlab.sandbox.bank_book import Fault
from fundlab.sandbox.control import Control
from fundlab.sandbox.database import Database
from fundlab.sandbox.ledger import available
from fundlab.sandbox.movements import Arrival, backdate, move_between_profiles, receive
from fundlab.sandbox.startup import Options, open_service
from tests.simulation import disk as disks
from tests.simulation import oracles, questions
from tests.simulation.bucket import Bucket
from tests.simulation.environment import BEGIN_NS, NS, Virtual
from tests.simulation.happenings import FAULTS, HOUR, PEOPLE, Happening, is_sandbox
from tests.simulation.network import Line
from tests.simulation.schedule import Actor, Killed, Schedule, Wrong
from tests.simulation.sometimes import sometimes

URL: Final = "https://desk.example"
STEPS_A_DAY: Final = 200_000
"""More than any day takes; a run that goes on and on is a failure."""
_RESTART_S: Final = 120
_PATIENCE: Final = 4
_PAUSE_S: Final = 600
_CONNECT: Final = clients.connect
_ONCE: Final = ("slip", "fund", "take")
"""What nobody tries again."""
_ASKED: Final = {"pay": "resume", "command": "ask"}
"""How somebody asks what became of a payment that failed."""
_BEHIND_NS: Final = 10 * 60 * NS
"""How far a replica of the service may be behind."""


@dataclass
class Wish:
    """A payment that somebody wants made, once."""

    number: int
    ref_id: str | None
    amount: str
    paid: set[str] = field(default_factory=set)
    """The transfers that its people were shown."""
    paid_at: int = 0


@dataclass
class Facts:
    """What the program has said is done, and so must stay."""

    rows: dict[str, int] = field(default_factory=dict)
    """Of the store: when each transfer was last changed, by its id."""
    history: list[tuple[int, dict[str, int]]] = field(default_factory=list)
    """What was held at some moments (ns): when each transfer was last changed, by its id."""
    proved: dict[str, str] | None = None
    """As ``rows``, of the sync that last read the balances: none where they moved at each look,
    ``None`` while a sync goes on, and after one that did not end."""
    annotations: set[tuple[str, str]] = field(default_factory=set)
    closed: set[str] = field(default_factory=set)
    pinned: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    """Of the closes: the transfers that each was made of, by the name of its pin."""
    reopened: bool = False
    reported: bool = False
    paid: dict[tuple[str, str], str] = field(default_factory=dict)
    """Of the journals: the transfer, by whose journal it is and its ref_id."""


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
        for name in PEOPLE:  # each has a place of their own; the store is shared
            (root / name).mkdir(parents=True)
        self.disk = disks.Disk(root, self.schedule)
        self.disk.fails = self._disk_fails
        self.quiet = False
        self._skews: dict[str, int] = {}
        self._armed: list[tuple[Happening, list[int]]] = []
        self._disk_trouble: tuple[int, int] = (0, 0)
        self._later: list[tuple[int, Callable[[], object]]] = []
        self.met: dict[str, list[str]] = {name: [] for name in PEOPLE}
        """What each has met of what may go wrong, in what they are at."""
        self.answers: dict[str, list[tuple[str, Answer]]] = {name: [] for name in PEOPLE}
        """What each has asked for in what they are at, and the answers."""
        self.refused_tokens: dict[str, set[str]] = {name: set() for name in PEOPLE}
        """The tokens of each that were answered with 401, in what they are at."""
        self.misled = False
        """Whether somebody was shown an old version of what the service has."""
        self.unlocked = False
        """Whether somebody took a lock away."""
        self.vanished: dict[str, dict[str, Any]] = {}
        """The transfers that the service does not show any more, by their ids."""
        self.altered: set[str] = set()
        """The ref_ids of payments that somebody was shown otherwise than they are."""
        self.forbidden = set[str]()
        """What somebody asked for and was answered with 403: the ends of the paths."""
        self.garbled: str | None = None
        """The transfer that the service shows with an amount nobody can read."""
        self.was_garbled = False
        self.quotes = Counter[int]()
        """How often each was asked for."""
        self.came_back = False
        """Whether the payer's journal was one of a backup."""
        self.killed = False
        """Whether somebody died, who may have left what the next publication makes up for."""
        self.bucket = Bucket(self._puts)
        self.doing: dict[str, str] = {}
        """What each is at, by their names."""
        self.wired: set[int] = set()
        """The numbers of the deposits for which money was sent."""
        self.longest_page = None if seed % 2 == 0 else random.Random(seed).choice([None, 25, 25])
        """Where requests are not signed, a proxy gives shorter pages."""
        self.deaf = ("updated_at", "created_at")[: seed // 6 % 3] if seed % 6 == 5 else ()
        """The filters of a list that are not heard where somebody syncs: where requests are not
        signed, a gateway strikes out what it does not know."""
        self.misled |= bool(self.deaf)  # what is looked for by its age may come late
        self.busy: list[str] = []
        """Who is at something."""
        self.attempts = 0

        options = Options(
            db=None, seed=seed, transfers=60, profiles=2, signing=seed % 2 == 0,
            signing_alg="EdDSA",
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
        self.keys = 0
        if options.signing:
            self.rotate_key()
        self.wishes: dict[int, Wish] = {}
        self.made, self.counted = Counter[str](), 0
        """How many transfers the service has for each wish, as far as those were counted."""
        self.rules: dict[int, set[str]] = {}
        """The rules shown to who made one, by the number of the wish."""
        self.confirmed: dict[str, int] = {}
        """When each rule was last confirmed (ns), by its nickname."""
        self.posted: dict[str, tuple[str, bool]] = {}
        """Of everybody the last call that changes something, and whether it may have been carried
        out without an answer."""
        self.instructions: dict[int, set[str]] = {}
        """The deposit instructions and addresses shown to who asked for some, by their number."""
        self.accounts: dict[int, set[str]] = {}
        """The fiat accounts shown to who registered one, by the number of the wish."""
        self.facts = Facts()
        self.planted: list[int] = []
        """By how many cents a balance changed without a transfer."""
        self.backed_up: Facts | None = None
        """What a restored store must have; ``None`` before the first backup."""
        self.backed_up_at = 0, 0
        """Between which moments (ns) was what its journal lacks from; one that had come back itself
        lacks more."""
        self.unasked: tuple[int, int] | None = None
        """The same of the payer's journal, while nobody has asked about what it lacks."""
        self.lost = False
        self.shared = {
            one.more["intent"] for one in happenings if (one.who, one.what) == ("auditor", "pay")
        }
        """The payments that two people make."""
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

    def run(self) -> None:
        """Raises ``Wrong``, or whatever the program must not raise."""
        logger, before = logging.getLogger("fundlab"), logging.getLogger("fundlab").level
        handler = logging.StreamHandler(_Lines(self.said))  # type: ignore[type-var]
        logger.addHandler(handler)
        logger.setLevel(logging.DEBUG)
        logger.propagate = False
        disks.attach(self.disk)
        os.environ["FUNDLAB_JOURNAL"] = str(self.journal("payer"))  # what backups are made of
        clients.connect = lambda: self.client("payer")  # who alone types commands
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.schedule.run()
                self.quiet = True
                Virtual.now_ns += 3 * 24 * HOUR
                for _, act in sorted(self._later, key=lambda one: one[0]):
                    act()
                oracles.at_the_end(self)
                questions.asked(self)
                oracles.nothing_is_left(self)
        finally:
            disks.detach()
            clients.connect = _CONNECT
            del os.environ["FUNDLAB_JOURNAL"]
            logger.removeHandler(handler)
            logger.setLevel(before)
            Virtual.sleep = lambda _: None
            Virtual.skew_ns = lambda: 0
            self.service.database.close()
            self.bucket.end()
            del self.app.state.service  # FastAPI remembers applications

    @property
    def digest(self) -> str:
        """Of the trace, of all that was logged and said, and of what nobody may say."""
        lines = [*self.trace, *self.said, *sorted(self.secrets)]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]

    def client(self, who: str, **more: Any) -> Client:
        secret = self.service.access.credential(self.client_id).client_secret
        self.secrets.add(secret)
        given: dict[str, Any] = {
            "base_url": URL, "auth_url": URL, "client_id": self.client_id, "client_secret": secret,
            "sandbox": is_sandbox(self.seed), "store": str(self.root / "store"),
            "journal": str(self.journal(who)),
        }  # fmt: skip
        client = _CONNECT(**given | self.signing() | more)
        chance = random.Random(f"line {self.seed} {who} {Virtual.now_ns}")
        client.transport._opened = Line(self, chance)  # type: ignore[assignment]
        return client

    def signing(self) -> dict[str, str]:
        """The settings of the newest signing key, where requests are signed."""
        if not self.keys:
            return {}
        file = self.root.with_name(f"key-{self.keys}.pem")
        return {"signing_key": str(file), "signing_key_id": f"key-{self.keys}"}

    def rotate_key(self) -> None:
        """A new signing key; the one before is not valid any more."""
        self.keys += 1
        made = self.control.add_signing_key(self.client_id, f"key-{self.keys}", alg="EdDSA")
        file = self.root.with_name(f"key-{self.keys}.pem")
        file.write_text(made["private_key"])
        file.chmod(0o600)
        self.secrets.add(made["private_key"].splitlines()[1])
        self.service.database.run("DELETE FROM signing_keys WHERE kid != ?", f"key-{self.keys}")

    def journal(self, who: str) -> Path:
        return self.root / who / "journal"

    def store(self) -> fl.Store:
        return fl.Store(self.root / "store")

    def elsewhere(self, who: str) -> fl.Store:
        """The store in a bucket, from the machine of ``who``."""
        return fl.Store(self.bucket.place(self.root / who / "scratch"))

    def _puts(self, path: str) -> str | None:
        """Somebody writes to the bucket; what becomes of it, where it does not go well."""
        self.schedule.step(f"puts {path}", 0.01)
        actor = self.schedule.current
        kind = None if actor is None else self.meets(actor, "puts", "storage")
        sometimes("a write to a bucket was done, and not answered", kind == "unanswered")
        return kind

    def note(self, text: str) -> None:
        self.trace.append(f"{Virtual.now_ns - BEGIN_NS:>18} {text}".replace(str(self.root), "~"))
        if self.schedule.steps > STEPS_A_DAY * self.days:
            raise Wrong(f"after {self.schedule.steps} steps the run does not end")

    # ------------------------------------------------------------------------------ the world

    def _turn(self, happenings: Sequence[Happening]) -> None:
        """What the world does, and what it arms against the others."""
        for one in happenings:
            self.schedule.sleep(max(0, one.at - Virtual.now_ns) / NS)
            self.note(f"world: {one.what} {one.who}")
            if one.what in ("message", "storage", "kill", "cut_power") or "step" in one.more:
                self._armed.append((one, [one.more["after"], 0]))
            elif one.what in ("full", "failing"):
                number = disks.NO_SPACE if one.what == "full" else disks.FAILING
                self._disk_trouble = number, one.at + one.more["minutes"] * 60 * NS
            elif one.what == "skew":
                self._skews[one.who] = one.more["seconds"] * NS
            elif one.what == "plant":
                self.plant(one.more["cents"])
            elif one.what == "deposit":
                self.deposit(one)
            elif one.what == "arrive":
                self.arrive(**one.more)
            elif one.what == "stablecoin":
                self.stablecoin(**one.more)
            elif one.what == "move":
                self.move(one.more["cents"] * 10**16)
            elif one.what == "vanish":
                self.vanish(one.more["which"])
            elif one.what == "garble":
                self.garble(one.more["which"])
            elif one.what == "taken":
                self.take_ref_id(f"taken-{one.more['name']}")
            elif one.what == "rotate":
                self.control.rotate_secret(self.client_id)
            elif one.what == "rotate_key" and self.keys:
                self.rotate_key()

    def deposit(self, one: Happening) -> None:
        """Money arrives; where it is late, under a time of before."""
        bodies = self.service.database.all("SELECT body FROM fiat_deposit_instructions")
        found = [memo for (body,) in bodies if not (memo := json.loads(body)).get("metadata")]
        if not found:  # but by those by which somebody waits for a deposit of his own
            return
        memo = found[one.number % len(found)]
        with self.control._settled():
            arrival = Arrival(
                memo["customer_id"], fl.models.TransferType.WIRE_DEPOSIT, memo["profile_id"],
                "USD", one.more["cents"] * 10**16, f"instructions:{memo['id']}", {},
            )  # fmt: skip
            receive(self.service.world, arrival, late_s=one.more["late"])
            if "dated" in one.more:  # entered today under a day of before
                ((body,),) = self.service.database.all(
                    "SELECT body FROM transfers ORDER BY seq DESC LIMIT 1"
                )
                row = json.loads(body)
                now = fl.base.values.Instant.parse(row["created_at"]).ns
                backdate(self.service.world, row, now - one.more["dated"] * NS, now)

    def wire(self, to: Any, amount: str, memo: str = "") -> None:
        """Money arrives by deposit instructions, with their memo or another, or at a deposit
        address."""
        if hasattr(to, "address"):
            self.control.crypto_deposit(to.address, "USDC", amount)
            sometimes("a stablecoin arrived at an address that was asked for")
            return
        ((customer,),) = self.service.database.all(
            "SELECT customer_id FROM fiat_deposit_instructions WHERE id = ?", to.id
        )
        arrival = Arrival(
            customer, fl.models.TransferType.WIRE_DEPOSIT, str(to.profile_id), "USD",
            int(Decimal(amount).scaleb(18)), f"instructions:{to.id}", {"memo": memo or to.memo_id},
        )  # fmt: skip
        with self.control._settled():
            receive(self.service.world, arrival)

    def arrive(self, rule: int, cents: int) -> None:
        """A stablecoin arrives where a rule converts it, if that was made."""
        for (body,) in self.service.database.all("SELECT body FROM rules"):
            found = json.loads(body)
            if found.get("nickname") == f"rule {rule}":
                address = found["source"]["crypto"]["address"]
                self.control.crypto_deposit(address, "USDC", f"{cents // 100}.{cents % 100:02d}")
                sometimes("a rule converted what arrived")

    def stablecoin(self, cents: int, asset: str) -> None:
        """One arrives where no rule converts it."""
        for (body,) in self.service.database.all("SELECT body FROM deposit_addresses ORDER BY seq"):
            if json.loads(body)["profile_id"] in self.profiles:
                address, amount = json.loads(body)["address"], f"{cents // 100}.{cents % 100:02d}"
                self.control.crypto_deposit(address, asset, amount)
                sometimes("a stablecoin arrived that no rule converts")
                return

    def move(self, units: int) -> dict[str, Any]:
        """Money goes from one profile to another; the side on which it comes in."""
        world = self.service.world
        ((customer,),) = self.service.database.all(
            "SELECT customer_id FROM profiles WHERE id = ?", self.profiles[0]
        )
        with self.control._settled():
            return move_between_profiles(
                world, customer, "USD", units, *self.profiles[:2], world.clock.now_ns()
            )

    def settle(self) -> None:
        """What is due by now has happened, as if somebody had asked the service."""
        with self.control._settled():
            pass

    def vanish(self, which: int) -> None:
        """A transfer of before this run, which the store has, is shown no more. One that it never
        had as it is, or that a backup lacks, would be a difference of the balances that nobody can
        name: one that settles only now is of this run."""
        self.settle()
        older = [row for row in oracles.at_the_service(self).values()
                 if oracles.moment(row["updated_at"]) < BEGIN_NS
                 and row["id"] in self.facts.rows and row["id"] != self.garbled
                 and (self.backed_up is None or row["id"] in self.backed_up.rows)]  # fmt: skip
        if older:
            row = older[which % len(older)]
            self.vanished[row["id"]] = self.control.remove_transfer(row["id"])

    def garble(self, which: int | None) -> None:
        """The amount of a transfer of before this run, at which no payment looks, cannot be read,
        or can again."""
        if which is None:
            self.garbled = None
            return
        older = [row["id"] for row in oracles.at_the_service(self).values()
                 if oracles.moment(row["updated_at"]) < BEGIN_NS - 7 * 24 * HOUR
                 and not row["type"].endswith("_WITHDRAWAL")]  # fmt: skip
        self.garbled, self.was_garbled = older[which % len(older)], True

    def first_version(self, row: dict[str, Any]) -> dict[str, Any]:
        """A withdrawal that has changed of late, as it was when it was new."""
        changed_ns = fl.base.values.Instant.parse(row["updated_at"]).ns
        made = row["type"].endswith("_WITHDRAWAL") and row["updated_at"] != row["created_at"]
        if not made or changed_ns < Virtual.now_ns - _BEHIND_NS:
            return row
        told_later = ("secondary_status", "status_details")
        first = {name: value for name, value in row.items() if name not in told_later}
        return first | {"status": "PENDING", "updated_at": row["created_at"]}

    @property
    def troubled(self) -> bool:
        """Whether a disk failed or a clock was wrong so far."""
        return self._disk_trouble[0] != 0 or any(self._skews.values())

    def plant(self, cents: int) -> None:
        """A balance changes without a transfer: what a reconciliation is for."""
        world, profile = self.service.world, self.profiles[0]
        with self.control._settled():
            world.ledger.post("planted", [
                (available(profile), "USD", -cents * 10**16),
                ("planted", "USD", cents * 10**16),
            ])  # fmt: skip
        self.planted.append(cents)

    def take_ref_id(self, ref_id: str) -> None:
        """Somebody moves money between two profiles under a ref_id that a payment will ask for."""
        credit = self.move(5 * 10**18)
        with self.control._settled():
            ((id_, body),) = self.service.database.all(
                "SELECT id, body FROM transfers WHERE group_id = ? AND id != ?",
                credit["group_id"], credit["id"],
            )  # fmt: skip
            row = {**json.loads(body), "ref_id": ref_id}
            self.service.database.run(
                "UPDATE transfers SET ref_id = ?, body = ? WHERE id = ?",
                ref_id, json.dumps(row).encode(), id_,
            )  # fmt: skip

    def do_later(self, seconds: float, act: Callable[[], object]) -> None:
        self._later.append((Virtual.now_ns + round(seconds * NS), act))

    # ------------------------------------------------------------------------------ faults

    def _skew(self) -> int:
        actor = self.schedule.current
        return 0 if actor is None or self.quiet else self._skews.get(actor.name, 0)

    def _disk_fails(self, what: str) -> int | None:
        number, until = self._disk_trouble
        if number == disks.NO_SPACE and what in ("removes", "renames"):
            return None  # which take none
        return number if number and not self.quiet and Virtual.now_ns < until else None

    def meets(self, actor: Actor, asked: str, fault: str = "message") -> str | None:
        """What goes wrong with the message that ``actor`` sends, if anything does."""
        for entry in self._armed:
            one, left = entry
            if one.what != fault or not asked.startswith(one.more["method"]):
                continue
            if one.who == actor.name:
                if left[0] > 0:
                    left[0] -= 1
                    continue
                kind: str = one.more["kinds"][left[1]]
                left[1] += 1
                if left[1] == len(one.more["kinds"]):
                    self._armed.remove(entry)
                self.note(f"{actor.name} meets {kind}")
                self.met[actor.name].append(kind)
                return kind
        return None

    def _strike(self, actor: Actor, what: str) -> None:
        """What is due of messages that were late; and whether somebody ends at this step."""
        due = [late for late in self._later if late[0] <= Virtual.now_ns]
        self._later = [late for late in self._later if late[0] > Virtual.now_ns]
        for _, act in sorted(due, key=lambda late: late[0]):
            act()
            with self.schedule.aside():
                oracles.refused(self)
        if actor.name not in self.people:
            return
        for entry in list(self._armed):
            one, left = entry
            if one.what in ("cut_power", "full") or (one.what == "kill" and one.who == actor.name):
                during = one.more.get("during", self.doing.get(actor.name))
                if not what.startswith(one.more["step"]) or during != self.doing.get(actor.name):
                    continue
                left[0] -= 1
                if left[0] >= 0:
                    continue
                self._armed.remove(entry)
                if one.what == "kill":
                    sometimes("somebody died on the way to a bucket", what.startswith("puts"))
                    sometimes("somebody died in the middle of a close", during == "close")
                    sometimes("somebody died in the middle of a reopening", during == "reopen")
                    sometimes("somebody died in the middle of an annotation", during == "annotate")
                    sometimes("somebody died in the middle of a publication", during == "publish")
                    actor.doomed = True
                    continue
                if one.what == "full":
                    self.note(f"the disk is full at {what}")
                    sometimes("a disk was full in the middle of a sync", " store/" in what)
                    until = Virtual.now_ns + one.more["minutes"] * 60 * NS
                    self._disk_trouble = disks.NO_SPACE, until
                    continue
                self.note(f"the power goes at {what}")
                sometimes("the power went in the middle of a sync", " store/" in what)
                self.disk.cut(random.Random(f"cut {self.seed} {one.number}"))
                for person in self.people.values():
                    person.actor.dead = True
                raise Killed


class Person:
    """Somebody at a machine: does what is on the list, and starts again after a crash."""

    def __init__(self, desk: Desk, name: str, happenings: Sequence[Happening]) -> None:
        self.desk, self.name = desk, name
        self.actor: Actor = Actor(name, lambda: None)
        self.client: Client | None = None
        """In use since the program was started; as a notebook has one for a day."""
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
                    if one.what in _ASKED and one.number % 4:  # most ask first what became of it
                        self.attempt(replace(one, what=_ASKED[one.what], more={}))
                except Killed:
                    if schedule.failed:
                        return
                    self.actor.dead, self.client = False, None
                    self.desk.note(f"{self.name} starts again")
                    self.desk.killed = True
                    with schedule.aside():
                        oracles.after_a_crash(self.desk)
                    with suppress(Killed):
                        schedule.sleep(_RESTART_S)
                    if self.once(one):
                        break

    def attempt(self, one: Happening) -> bool:
        """Whether it is done, as far as this person goes."""
        desk = self.desk
        if desk.lost and self.name == "payer":
            return False  # whose journal may be on its way back
        alone, before = not desk.busy, oracles.unfinished(desk)
        loose = oracles.loose(desk)
        desk.met[self.name].clear()
        desk.answers[self.name].clear()
        desk.refused_tokens[self.name].clear()
        desk.posted.pop(self.name, None)  # what was sent before is another call
        desk.busy.append(self.name)
        desk.doing[self.name] = one.what
        desk.attempts += 1
        number = desk.attempts
        try:
            if self.client is None:
                self.client = desk.client(self.name)
            getattr(self, one.what)(self.client, **one.more)
        except FundlabError as error:
            self.client = None  # whoever meets an error connects again
            beaten = one.what == "elsewhere" and isinstance(error, StoreLocked)
            sometimes("of two machines that published at once one was told", beaten)
            met = list(desk.met[self.name])
            if getattr(error, "reason", "") == "restored_journal":
                begun = len(desk.said)
                try:
                    fl.resume(desk.client(self.name), say=desk.said.append)
                except FundlabError as still:  # its clock is wrong, maybe: it stays shut
                    desk.note(f"{self.name} resume: {still}")
                else:
                    with desk.schedule.aside():
                        oracles.missed(desk, self.name, desk.said[begun:], desk.unasked or ())
                    desk.unasked = None
            text = f"{type(error).__name__}: {error}"
            desk.said.append(text)
            desk.note(f"{self.name} {one.what}: {text}")
            with desk.schedule.aside():
                oracles.refusal(desk, one, error, met)
                oracles.says_so(desk, self.name, error)
                if alone and desk.attempts == number:  # nobody else who may have been killed
                    oracles.tidy(desk, before)
            return self.once(one)
        finally:
            desk.busy.remove(self.name)
            del desk.doing[self.name]
        if not desk.busy:
            oracles.bounded(desk)
            if alone and desk.attempts == number:
                oracles.lasting(desk, loose)
                oracles.tidy(desk, before)
        desk.note(f"{self.name} {one.what}: done")
        return True

    def once(self, one: Happening) -> bool:
        """Whether nobody tries it again."""
        return one.what in _ONCE or "once" in one.more

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
        there = oracles.payments(self.desk)[str(intent)]
        made = plan.submit(plan.code)
        wish.paid.add(made.id)
        wish.paid_at = Virtual.now_ns
        self._met_on_the_way()
        came_back = not there and self.desk.came_back
        sometimes("a journal of before the last payments came back, and then paid", came_back)
        with self.desk.schedule.aside():
            oracles.asked_first(self.desk, self.name, new=not there)
        self.desk.facts.paid[self.name, plan.ref_id] = made.id
        with self.desk.schedule.aside():
            oracles.made(
                self.desk, made, amount=wish.amount, ref_id=plan.ref_id, asset="USD",
                profile_id=self.desk.profiles[0], fiat_account_id=self.desk.account,
            )  # fmt: skip
            oracles.journal_keeps(self.desk, self.name, plan.ref_id)

    def command(self, _client: Client, intent: int, named: bool, as_json: bool) -> None:
        """A payment by the command line; the same command again finds what was sent."""
        desk, ref_id = self.desk, f"invoice-{intent}" if named else None
        amount = f"{1 + intent // 100}.{intent % 100:02d}"
        wish = desk.wishes.setdefault(intent, Wish(intent, ref_id, amount))
        before = [] if desk.came_back else sorted(wish.paid)
        agreed = ["--yes"] if is_sandbox(desk.seed) else ["--yes", "--confirm-amount", amount]
        status, out, _ = self._typed(
            "withdraw", "--profile", desk.profiles[0], "--fiat-account", desk.account,
            "--amount", amount, "--metadata", f"intent={intent}", *agreed,
            *(["--ref-id", ref_id] if ref_id else []), *(["--json"] if as_json else []),
        )  # fmt: skip
        with desk.schedule.aside():
            wish.paid.add(oracles.withdrew(desk, wish.number, status, out, before))
        wish.paid_at = Virtual.now_ns
        self._met_on_the_way()
        sometimes("a payment was made by the command line")
        sometimes("a command found what it had sent before", "\"already_submitted\": true" in out
                  or "already submitted" in out)  # fmt: skip
        if ref_id:
            desk.facts.paid[self.name, ref_id] = max(wish.paid)

    def ask(self, _client: Client) -> None:
        """What became of payments, by the command line."""
        before = oracles.in_doubt(self.desk, self.name)
        status, out, said = self._typed("resume", "--json")
        self.desk.unasked = None  # it is the payer's alone
        with self.desk.schedule.aside():
            oracles.resumed(self.desk, self.name, [*said.splitlines(), out])
            oracles.answered(self.desk, self.name, status, json.loads(out)["rows"])
        sometimes("a payment in doubt was asked for by the command line", before)

    def _typed(self, *arguments: str) -> tuple[int, str, str]:
        """A command, in this process: its exit status, standard output and standard error."""
        out, said, status = io.StringIO(), io.StringIO(), 0
        with redirect_stdout(out), redirect_stderr(said):
            try:
                cli.run([*arguments])
            except typer.Exit as end:
                status = end.exit_code
        self.desk.said += [out.getvalue(), said.getvalue()]
        return status, out.getvalue(), said.getvalue()

    def receive(self, client: Client, number: int, named: bool, network: str | None) -> None:
        """Instructions for a wire, or an address on ``network``; money is sent there, once, and
        waited for."""
        desk = self.desk
        asked: dict[str, Any] = {
            "profile_id": desk.profiles[1], "ref_id": f"deposit-{number}" if named else None,
            "metadata": {"deposit": str(number)}, "say": desk.said.append,
        }  # fmt: skip
        if network is not None:
            address = fl.plan_deposit_address(client, crypto_network=network, **asked)
            made: Any = address.submit(address.code)
        else:
            wire = fl.plan_deposit(client, **asked)
            made = wire.submit(wire.code)
        desk.instructions.setdefault(number, set()).add(made.id)
        amount = f"{number}.{number % 100:02d}"
        if number not in desk.wired:
            desk.wired.add(number)
            desk.do_later(20, lambda: desk.wire(made, amount))
            if network is None:  # and somebody else's, which is newer
                desk.do_later(21, lambda: desk.wire(made, "3.33", memo="another"))
        if network is None:
            found = fl.wait_for_deposit(client, made, timeout=900, progress=False)
            sometimes("a deposit that was waited for arrived")
            with desk.schedule.aside():
                oracles.arrived(desk, found.id, made.memo_id, amount)

    def approved(self, client: Client, intent: int, named: bool, first: str) -> None:
        """A payment goes out once another person has signed for it, and not by what does not count,
        which is tried ``first``."""
        desk, store = self.desk, self.desk.store()
        client = desk.client(self.name, approvals=1)
        ref_id, amount = f"invoice-{intent}" if named else None, f"{intent / 100:.2f}"
        begun = intent in desk.wishes
        wish = desk.wishes.setdefault(intent, Wish(intent, ref_id, amount))
        asked = {
            "profile_id": desk.profiles[0], "fiat_account_id": desk.account, "amount": amount,
            "metadata": {"intent": str(intent)},
        }  # fmt: skip
        plan = fl.plan_withdrawal(client, ref_id=ref_id, say=desk.said.append, **asked)
        there = oracles.payments(desk)[str(intent)]
        signers = {"approver": _signer(desk.seed, 1), "maker": _signer(desk.seed, 2)}
        for role, signer in signers.items():
            if role not in approvals.people(store):
                file = desk.root.with_name(f"{role}.pub")  # made at another machine
                file.write_bytes(signer.key.public_key().public_bytes(*_PUBLIC))
                approvals.add_person(store, role, file, cast("approvals.Role", role), by="auditor")
        request = plan.request(
            desk.root / self.name / f"request-{intent}-{desk.attempts}.json", why="", by="payer"
        )
        now = plan.context.now  # all have the clock of one machine, which may be wrong
        if first == "maker":
            approvals.approve(request, [plan], "maker", signers["maker"], now())
        elif first == "another code":
            other = SimpleNamespace(ref_id=plan.ref_id, code="0000")
            approvals.approve(request, [other], "approver", signers["approver"], now())  # type: ignore[list-item]
        elif first == "another payment":
            more = asked | {"amount": f"{intent / 100 + 1:.2f}"}
            request = fl.plan_withdrawal(client, say=desk.said.append, **more).request(
                request.path.with_name(f"other-{desk.attempts}.json"), why="", by="payer"
            )
            approvals.approve(request, [plan], "approver", signers["approver"], now())
        try:
            made = plan.submit(plan.code, approved=request.path)
        except ActionRefused as refusal:
            if refusal.reason != "approval":
                raise
            sometimes("what nobody who may had approved for this payment was refused")
            path = request.path.with_name(f"again-{desk.attempts}.json")
            request = plan.request(path, why="", by="payer")
            approvals.approve(request, [plan], "approver", signers["approver"], now())
            made = plan.submit(plan.code, approved=request.path)
        else:
            if not begun:
                raise Wrong(f"payment {intent} was sent with the approval of {first}")
        wish.paid.add(made.id)
        wish.paid_at = Virtual.now_ns
        sometimes("a payment that another person had approved was made", not there)
        desk.facts.paid[self.name, plan.ref_id] = made.id

    def load(self, client: Client, order: str, since: int | None, workers: int, limit: int) -> None:
        """Transfers, in a notebook; those that were there before are, each once, as they are."""
        desk, before = self.desk, oracles.at_the_service(self.desk)
        moved = oracles.moves(desk)
        start = None if since is None else BEGIN_NS - since * 24 * HOUR
        given = {} if start is None else {"since": pd.Timestamp(start, tz="UTC")}
        frame = fl.load_transfers(
            client, order=order, invalid="set_aside", workers=workers, limit=limit, **given
        )
        sometimes("several workers loaded rows", workers > 1)
        with desk.schedule.aside():
            if "stale" not in desk.met[self.name]:
                oracles.loaded(desk, frame, before, start, order)
        sometimes("rows were loaded while others were added", oracles.moves(desk) > moved)

    def _met_on_the_way(self) -> None:
        """To a payment that is made now."""
        met = {*self.desk.met[self.name]}
        sometimes("a payment met a gateway's 408, and was made", "timed_out" in met)
        sometimes("a payment met a proxy that gives no tunnel", "no_tunnel" in met)
        sometimes("a payment was made, and the tunnel of its answer ended", "tunnel_ended" in met)
        page = met & {"page_after", "page_behind"}
        sometimes("a payment was made, and a gateway's page stood for its answer", page)

    def batch(self, client: Client, intents: list[int], limit: int | None) -> None:
        """A table of payments, each named, maybe under a limit of the day: one that just covers
        them is 0, one below it by a dollar -1."""
        desk, began = self.desk, Virtual.now_ns
        rows = []
        for intent in intents:
            amount = f"{1 + intent // 100}.{intent % 100:02d}"
            wish = desk.wishes.setdefault(intent, Wish(intent, f"invoice-{intent}", amount))
            rows.append({
                "profile_id": desk.profiles[0], "fiat_account_id": desk.account, "amount": amount,
                "ref_id": wish.ref_id, "metadata": {"intent": str(intent)},
            })  # fmt: skip
        most = None
        if limit is not None:
            covers = oracles.counted_today(desk, intents)
            most = Decimal(limit) if limit > 0 else covers + limit
            client = desk.client(self.name, daily_withdrawal_limit=str(most))
        before, there = len(oracles.withdrawn(desk)), set(oracles.payments(desk))
        try:
            plans = fl.plan_withdrawals(client, pd.DataFrame(rows), say=desk.said.append)
            desk.said.append(repr(plans))
            found = plans.submit(plans.code, progress=False)
        except ActionRefused as refusal:
            if refusal.reason == "own_limit":
                oracles.above_limit(desk, most, intents)
                if not {"stale", "slow"} & {*desk.met[self.name]}:  # it was shown what was
                    oracles.still_open(desk, refusal, began)
                sometimes("a batch was refused for the limit of the day")
                for intent in intents:  # nobody wants them any more, if none was begun
                    if not desk.wishes[intent].paid and not oracles.payments(desk)[str(intent)]:
                        del desk.wishes[intent]
                return
            raise
        self._met_on_the_way()
        done = set(found["state"]) == {"done"}
        sometimes("a batch that the limit just covers was paid", done and limit == 0)
        paid_before = [one for one in intents if desk.wishes[one].paid or str(one) in there]
        sometimes("a batch was paid of which a row had been paid before", done and paid_before)
        for row, plan in zip(found.to_dict("records"), plans.plans, strict=True):
            if row["state"] == "done":
                wish = desk.wishes[int(row["metadata"]["intent"])]
                wish.paid.add(row["transfer_id"])
                wish.paid_at = Virtual.now_ns
                desk.facts.paid[self.name, plan.ref_id] = row["transfer_id"]
        with desk.schedule.aside():
            oracles.batched(desk, found, rows, desk.met[self.name])
            if most is not None and len(oracles.withdrawn(desk)) > before:
                oracles.within_limit(desk, most, intents)

    def convert(self, client: Client, rule: int, named: bool, once: bool = False) -> None:
        """What arrives of a stablecoin becomes dollars, from now on; every other time another
        profile's."""
        profile, other = self.desk.profiles[:2]
        networks = ("ETHEREUM", "SOLANA", "BASE", "POLYGON_POS", "ARBITRUM_ONE")
        plan = fl.plan_rule(
            client, profile_id=profile, source_asset="USDC",
            destination_asset="USD", source={"crypto": {"network": networks[rule % 5]}},
            destination={"profile": {"profile_id": other}} if once else None,
            nickname=f"rule {rule}", ref_id=f"rule-{rule}" if named else None,
            say=self.desk.said.append,
        )  # fmt: skip
        self.desk.confirmed[f"rule {rule}"] = Virtual.now_ns
        before = {*self.desk.met[self.name]}
        self.desk.rules.setdefault(rule, set()).add(plan.submit(plan.code).id)
        lost = ({*self.desk.met[self.name]} | before) & {"unanswered", "tunnel_ended", "late"}
        sometimes("a rule whose first answer was lost was made once", lost)

    def take(self, client: Client, name: int, way: str = "plan") -> None:
        """A payment is asked for under a ref_id that stands for something else."""
        sometimes("a payment asked for the ref_id of an internal transfer")
        say, asked = self.desk.said.append, {
            "profile_id": self.desk.profiles[0], "fiat_account_id": self.desk.account,
            "amount": "5.00", "ref_id": f"taken-{name}",
        }  # fmt: skip
        if way == "client":
            made: object = client.create_fiat_withdrawal(**asked, asset="USD")
        elif way == "batch":
            batch = fl.plan_withdrawals(client, pd.DataFrame([asked]), say=say)
            found = batch.submit(batch.code, progress=False)
            if set(found["state"]) == {"refused"}:
                return
            made = found.to_dict("records")
        else:
            plan = fl.plan_withdrawal(client, **asked, say=say)
            made = plan.submit(plan.code)
        raise Wrong(f"ref_id taken-{name} stands for an internal transfer; shown as paid: {made}")

    def slip(self, client: Client) -> None:
        """The newest invoice is entered once more, under another name."""
        paid = [one for one in self.desk.wishes.values() if one.paid]
        wish = max(paid, key=lambda one: one.paid_at, default=None)
        if wish is None or wish.amount.endswith(".13"):  # those fail, and may be paid again
            return
        plan = fl.plan_withdrawal(
            client, profile_id=self.desk.profiles[0], fiat_account_id=self.desk.account,
            amount=wish.amount, ref_id=f"again-{wish.number}", say=self.desk.said.append,
        )  # fmt: skip
        plan.submit(plan.code)
        day = Virtual.now_ns - wish.paid_at < 23 * HOUR
        if day and "stale" not in self.desk.met[self.name]:
            raise Wrong(f"payment {wish.number} was made again, under another name")

    def register(self, client: Client, account: int, named: bool) -> None:
        """A bank account more, and the wait for its approval."""
        number = f"{731_000_000_000 + account}"  # not the zeros of an amount
        self.desk.secrets.add(number)
        plan = fl.register_fiat_account(
            client, fiat_account_owner={"institution_details": {"name": f"Supplier {account}"}},
            fiat_network_instructions={"wire": _wire(number)},
            ref_id=f"account-{account}" if named else None, metadata={"account": str(account)},
            say=self.desk.said.append,
        )  # fmt: skip
        self.desk.said.append(repr(plan))
        self.desk.accounts.setdefault(account, set())
        made = plan.submit(plan.code)
        self.desk.accounts[account].add(made.id)
        ended = fl.wait_for(client, made)
        with self.desk.schedule.aside():
            if ended is not made:  # else there was nothing to wait for
                oracles.ended(self.desk, self.name, ended)

    def resume(self, client: Client) -> None:
        said, before = len(self.desk.said), oracles.in_doubt(self.desk, self.name)
        lines = oracles.lines_of_journals(self.desk, self.name)
        frame = fl.resume(client, say=self.desk.said.append)
        found = before - oracles.in_doubt(self.desk, self.name)
        sometimes("a payment in doubt was found again by fl.resume", found)
        if self.name == "payer":
            self.desk.unasked = None
        with self.desk.schedule.aside():
            oracles.resumed(self.desk, self.name, self.desk.said[said:])
            oracles.looked_at(self.desk, self.name, frame, lines)

    def sync(
        self, client: Client, full: bool, unlock: bool = False, tables: list[str] | None = None
    ) -> None:
        store, before = self.desk.store(), oracles.at_the_service(self.desk)
        before.pop(self.desk.garbled or "", None)  # it may be readable again before this ends
        moved = oracles.moves(self.desk)
        proved, self.desk.facts.proved = self.desk.facts.proved, None
        if unlock and self.desk.disk.fails("syncs") is None:
            self.desk.unlocked = True
            (store.path / ".lock").unlink(missing_ok=True)
        attempts, had = self.desk.attempts, oracles.held(store)
        alone, marks = self.desk.busy == [self.name], oracles.marks(store)
        bases = oracles.bases(store)
        staged = any((store.path / ".staging").rglob("*.arrow"))
        result = store.sync(client, tables=tables, full=full, progress=False)
        self.desk.said.append(str(result))
        sometimes("a sync whose filters were not heard was done", self.desk.deaf)
        self.desk.facts.proved = proved
        with self.desk.schedule.aside():
            if "stale" in self.desk.met[self.name]:
                before = {}  # what it was shown is not what there was
            oracles.synced(self.desk, store, before, full=full)
            if alone and self.desk.attempts == attempts:
                oracles.counted(store, result, had)
                oracles.merged(self.desk, store, result, bases)
                if not staged:  # else some of it had come before
                    oracles.asked_for(self.desk, self.name, result, marks, full=full)
            moved = oracles.moves(self.desk) - moved
            oracles.balanced(self.desk, self.name, store, result, moved)

    def compact(self, _client: Client) -> None:
        store = self.desk.store()
        store.compact()
        merged = [*(store.path / "transfers").glob("base-*")]
        old = store.history("transfers")
        sometimes("old versions were read from merged files", merged and len(old))
        with self.desk.schedule.aside():
            oracles.kept(self.desk, oracles.held(store))

    def fund(self, client: Client, cents: int) -> None:
        """Money is wired in, without a name by which a second wire would be known: nobody tries
        again."""
        listed = client.list_fiat_deposit_instructions()
        found = next((one for one in listed if not one.metadata), None)  # nobody waits by those
        if found is None or found.memo_id is None or client.settings.is_production:
            return
        client.initiate_sandbox_fiat_deposit(
            memo_id=found.memo_id, amount=f"{cents // 100}.{cents % 100:02d}",
            fiat_account_owner={"institution_details": {"name": "Treasury"}},
            fiat_network_instructions={"wire": _wire(f"{cents:012d}")},
        )  # fmt: skip

    def verify(self, _client: Client) -> None:
        oracles.verified(self.desk, self.desk.store())

    def backup(self, _client: Client) -> None:
        before = copy.deepcopy(self.desk.facts)
        begun, _ = self.desk.unasked or (Virtual.now_ns, 0)
        done = self.desk.store().backup(self.desk.root / "backup")
        _, ended = self.desk.unasked or (0, Virtual.now_ns)
        self.desk.backed_up_at = begun, ended
        if not done.journals:
            before.paid.clear()
        self.desk.backed_up = before

    def restore(self, client: Client, with_journal: bool) -> None:
        """The disk with the store is lost, maybe the payer's journal with it; what a backup has of
        both comes back."""
        desk, backup = self.desk, self.desk.backed_up
        others = desk.busy != [self.name] or desk.disk.fails("syncs") is not None
        if backup is None or others or not (desk.lost or desk.store().path.exists()):
            return
        away = desk.root.with_name(f"lost-{Virtual.now_ns}")
        with_journal = with_journal and any(name == "payer" for name, _ in backup.paid)
        with desk.schedule.aside():  # nobody ends in the middle of a loss
            if desk.store().path.exists():
                shutil.move(desk.store().path, away)
            if with_journal:
                shutil.rmtree(desk.journal("payer"), ignore_errors=True)
        desk.lost = True
        paid = {
            key: id_ for key, id_ in desk.facts.paid.items()
            if key[0] != "payer" or not with_journal
        }  # fmt: skip
        # who comes meanwhile finds an empty place, and nothing that was promised
        desk.facts = Facts(paid=paid, reopened=True)
        restored, said = facade.restored(desk.root / "backup", desk.store().path)
        desk.said += said
        desk.came_back |= with_journal
        if with_journal:
            desk.unasked = desk.backed_up_at
            paid |= {key: id_ for key, id_ in backup.paid.items() if key[0] == "payer"}
        desk.facts, desk.lost = replace(copy.deepcopy(backup), paid=paid), False
        desk.facts.proved = None
        restored.sync(client, progress=False)

    def annotate(self, _client: Client, item: int, comment: str) -> None:
        """Something is said of one of the store's transfers."""
        store = self.desk.store()
        there = sorted(store.read("transfers", columns=["id"])["id"])
        if not there:
            return
        item_id = there[item % len(there)]
        store.annotate(item_id, comment=comment, by=self.name)
        self.desk.facts.annotations.add((item_id, comment))

    def close(self, _client: Client, period: str) -> None:
        store = self.desk.store()
        try:
            made = store.close(period, by=self.name)
        except CloseRefused:
            made = store.close(period, by=self.name, with_breaks="simulated")
        else:
            with self.desk.schedule.aside():
                oracles.clean(store)
        states = set(store.closes()["state"])
        sometimes(
            "a month was closed again after it was reopened", {"closed", "reopened"} <= states
        )
        self.desk.facts.closed.add(period)
        with self.desk.schedule.aside():
            self.desk.facts.pinned[made.pin] = oracles.pinned(store, made.pin)

    def report(self, _client: Client, period: str | None) -> None:
        store = self.desk.store()
        found = fl.report(store, period, out=self.desk.root / "reports", formats=["csv"])
        self.desk.said.append(repr(found))
        self.desk.facts.reported = True
        with self.desk.schedule.aside():
            oracles.reported(store, found)

    def quote(self, client: Client, cents: int) -> None:
        """What a withdrawal of a stablecoin would cost; it moves nothing."""
        amount, before = f"{cents // 100}.{cents % 100:02d}", oracles.moves(self.desk)
        self.desk.quotes[cents] += 1
        quote = fl.quote_fee(
            client, asset="USDC", destination_address="0x" + "1" * 40, crypto_network="ETHEREUM",
            amount=amount,
        )  # fmt: skip
        self.desk.said.append(repr(quote))
        oracles.quoted(self.desk, quote.quote, amount)
        if self.desk.busy == [self.name]:
            moved = oracles.moves(self.desk) - before
            sometimes("a fee was quoted", not moved)
        again = self.desk.quotes[cents] > 1
        sometimes("a quote was asked for again after its answer was lost", again)

    def accept_gone(self, _client: Client) -> None:
        store = self.desk.store()
        gone = store.gone()
        mine = sorted(gone[gone["state"] == "gone"]["id"]) if len(gone) else []
        oracles.gone(self.desk, mine)
        if mine:
            store.accept_gone(mine, by=self.name, reason="simulated", still_counts=True)
            sometimes("a transfer that was listed no more was accepted")

    def accept_set_aside(self, _client: Client) -> None:
        store = self.desk.store()
        there = store.set_aside()
        if len(there) and (there["state"] == "open").any():
            store.accept_set_aside(by=self.name, reason="simulated")
            sometimes("a row that was set aside was accepted")

    def reconcile(self, _client: Client, fault: Fault | None) -> None:
        """The last month of which the bank has anything against its statement, in which something
        may be wrong."""
        desk, store = self.desk, self.desk.store()
        with desk.schedule.aside():
            made = desk.control.bank_statement("2026")
            booked = [one["booked_on"][:7] for one in made["lines"]]
            period = max([month for month in booked if month < "2026-11"], default="2026-10")
            right = desk.control.bank_statement(period)
            errors: dict[Fault, int] = {fault: 1} if fault else {}
            made = desk.control.bank_statement(period, errors=errors)
        file = desk.root.with_name(made["name"])  # downloaded on a disk that works
        file.write_text(made["text"])
        found = fl.bank.reconcile(store, fl.bank.read(file), period)
        with desk.schedule.aside():
            oracles.reconciled(desk, store, found, made["lines"], right["lines"])

    def publish(self, _client: Client) -> None:
        """The rows, for other engines; what a killed publication left does not stay."""
        store, folder = self.desk.store(), self.desk.root / "published"
        done = store.publish(folder)["transfers"]
        sometimes("rows were published", done.written)
        sometimes("rows were published again, and not every month was written", done.kept)
        with self.desk.schedule.aside():
            oracles.published(self.desk, folder / "transfers", store)

    def elsewhere(self, client: Client) -> None:
        """A store in a bucket, which two machines write."""
        store, before = self.desk.elsewhere(self.name), oracles.at_the_service(self.desk)
        store.sync(client, progress=False)
        sometimes("a store in a bucket was brought up to date")
        with self.desk.schedule.aside():
            if not self.desk.was_garbled and "stale" not in self.desk.met[self.name]:
                rows = self.desk.bucket.rows(oracles.COMPARED)
                oracles.has_all(self.desk, rows, before)

    def reopen(self, _client: Client, period: str) -> None:
        self.desk.facts.reopened = True
        self.desk.store().reopen(period, by=self.name, reason="simulated")


_PUBLIC: Final = (Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def _signer(seed: int, number: int) -> EdSigner:
    key = hashlib.sha256(f"signer {seed} {number}".encode()).digest()
    return EdSigner(f"signer-{number}", Ed25519PrivateKey.from_private_bytes(key))


def _wire(number: str) -> dict[str, Any]:
    routing = {"routing_number": "021000021", "routing_number_type": "ABA"}
    bank = {"bank_name": "First Harbor Bank", "bank_address": {"country": "US"}}
    owner = {"country": "US"}
    return {
        "account_number": number, "fiat_account_owner_address": owner,
        "routing_details": routing | bank,
    }  # fmt: skip


class _Lines:
    """What is logged, as lines."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines

    def write(self, text: str) -> None:
        self._lines.append(text)

    def flush(self) -> None:
        """Nothing is held back."""
