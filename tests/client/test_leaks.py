"""Ways for a secret to leak, each tried with one canary of every kind: none may show it."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import gc
import inspect
import io
import json
import logging
import marshal
import pickle
import pprint
import pydoc
import shelve
import subprocess
import sys
import threading
import traceback
import types
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import psutil
import pytest
import scripted
from extra_packages import needs
from IPython.core.interactiveshell import InteractiveShell
from IPython.lib.pretty import pretty as ipython_pretty
from rich.console import Console
from rich.logging import RichHandler
from rich.pretty import pretty_repr
from rich.traceback import Traceback
from scripted import answer, problem, skipping
from test_operations import SENT

from fundlab import Store
from fundlab.base import errors
from fundlab.client.client import Client
from fundlab.client.doctor import doctor
from fundlab.client.signing import new_key
from fundlab.settings.secret import Secret
from fundlab.settings.settings import Settings

SECRET, TOKEN, PASSWORD = "canary-5f0c2d", scripted.TOKEN, "canary-of-the-key-8d"
CANARIES = (SECRET, TOKEN, PASSWORD)


def leaked(shown: Any) -> list[str]:
    text = shown.decode("utf-8", "replace") if isinstance(shown, bytes) else str(shown)
    return [canary for canary in CANARIES if canary in text]


@dataclass
class Scene:
    """A client that has carried out every operation, and failed at it in several ways."""

    client: Client
    server: scripted.Scripted
    raised: dict[str, BaseException]
    logs: str
    folder: Path

    @property
    def secrets(self) -> list[Secret]:
        settings, grant = self.client.settings, self.client.transport._tokens._grant
        assert grant is not None
        assert settings.signing_key_password is not None
        return [settings.client_secret, settings.signing_key_password, grant.token]

    @property
    def objects(self) -> list[Any]:
        """Everything of ours that a user can get hold of."""
        client = self.client
        transport = client.transport
        return [client, client.settings, transport, transport._tokens, transport._tokens._grant,
                transport._opened, transport._pace, transport._env, client.signer,
                client.list_transfers(), client.get_transfer("t"), *self.secrets]  # fmt: skip


def fresh_client(server: scripted.Scripted, folder: Path, **settings: Any) -> Client:
    if not (folder / "key.pem").exists():
        new_key("ES256", folder / "key.pem", Secret(PASSWORD))
    given = {
        "base_url": server.url, "auth_url": server.url, "client_id": "client-1",
        "client_secret": SECRET, "signing_key": folder / "key.pem", "signing_key_id": "k",
        "signing_key_password": PASSWORD,
    }  # fmt: skip
    loaded = Settings.load(environ={}, **(given | settings))
    return Client(loaded, environment=skipping(draw=lambda: 0.0))


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("leaks")
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    with scripted.running() as server, fresh_client(server, folder) as client:
        for name, arguments, *_, reply in SENT:
            server.script(answer(reply) if reply is not None else answer(b""))
            result = getattr(client, name)(**arguments)
            list(result) if name.startswith("list_") else repr(result)
        raised = failures(server, client)
        server.script(answer({"id": "t"}))
        yield Scene(client, server, raised, stream.getvalue(), folder)
    root.removeHandler(handler)
    root.setLevel(level)


def failures(server: scripted.Scripted, client: Client) -> dict[str, BaseException]:
    """An error of each kind, from a service that repeats what it was sent."""
    echo = problem(403, f"Bearer {TOKEN} is bad", detail=f"not {TOKEN}", meta={"sent": TOKEN})
    scripts: dict[str, scripted.Answer] = {
        "refused": echo,
        "lost": scripted.reset,
        "not JSON": answer(f"<html>{TOKEN}".encode()),
        "malformed": answer({"id": 5, "amount": TOKEN}),
        "redirected": answer(b"", 302, Location="http://127.0.0.1:1/"),
    }
    found: dict[str, BaseException] = {}
    for name, script in scripts.items():
        server.script(script)
        found[name] = caught(lambda: client.get_transfer("t"))
    found["invalid"] = caught(lambda: client.create_fiat_withdrawal(
        amount="x", fiat_account_id="f", profile_id="p"
    ))  # fmt: skip
    server.token_answers[:] = [
        answer({"error": "invalid_client", "error_description": SECRET}, 401)
    ]
    found["wrong secret"] = caught(lambda: list(client.list_events()))
    found["wrong setting"] = caught(
        lambda: Settings.load(environ={"FUNDLAB_CLIENT_SECRET": SECRET}, client_secret=SECRET)
    )
    server.token_answers[:] = [scripted.token()]
    return found


def caught(action: Callable[[], Any]) -> BaseException:
    try:
        action()
    except errors.FundlabError as error:
        return error
    raise AssertionError("it did not fail")


# ------------------------------------------------------------------------------ the ways


def each_object(show: Callable[[Any], Any]) -> Callable[[Scene], str]:
    return lambda scene: "\n".join(refusable(show, thing) for thing in scene.objects)


def each_secret(show: Callable[[Any], Any]) -> Callable[[Scene], str]:
    return lambda scene: "\n".join(refusable(show, secret) for secret in scene.secrets)


def each_error(show: Callable[[BaseException], Any]) -> Callable[[Scene], str]:
    return lambda scene: "\n".join(refusable(show, error) for error in scene.raised.values())


def refusable(show: Callable[[Any], Any], thing: Any) -> str:
    """What ``show`` gives, or the words with which it is refused."""
    try:
        shown = show(thing)
    except (TypeError, AttributeError, ValueError, pickle.PicklingError) as refusal:
        return f"{refusal!r} {refusal}"
    return shown.decode("latin-1") if isinstance(shown, bytes) else str(shown)


def of_every_attribute(thing: Any) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pydantic's models have deprecated attributes
        return " ".join(repr(value) for _, value in inspect.getmembers(thing))


def reachable_texts(thing: Any) -> str:
    """Every text and bytes object that hangs on ``thing``, but for what only ``reveal`` holds."""
    seen: dict[int, Any] = {}
    queue = [thing]
    texts = []
    while queue:
        item = queue.pop()
        if id(item) in seen or isinstance(item, types.ModuleType | type | types.FrameType):
            continue
        seen[id(item)] = item
        if isinstance(item, types.FunctionType):
            if not item.__qualname__.startswith("Masked."):
                queue += item.__closure__ or ()
        elif isinstance(item, str | bytes | bytearray):
            texts.append(str(item) if isinstance(item, str) else item.decode("latin-1"))
        else:
            queue += gc.get_referents(item)
    return "\n".join(texts)


def rich_traceback(error: BaseException) -> str:
    console = Console(file=io.StringIO(), width=200)
    console.print(
        Traceback.from_exception(type(error), error, error.__traceback__, show_locals=True)
    )
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return text


def logged(error: BaseException, handler_of: Callable[[io.StringIO], logging.Handler]) -> str:
    stream = io.StringIO()
    logger = logging.Logger("own")
    logger.addHandler(handler_of(stream))
    logger.error("failed: %r", error, exc_info=error)
    return stream.getvalue()


def rich_handler(stream: io.StringIO) -> logging.Handler:
    console = Console(file=stream, width=200)
    return RichHandler(console=console, rich_tracebacks=True, tracebacks_show_locals=True)


def in_ipython(mode: str) -> Callable[[Scene], str]:
    """What a cell that fails prints after ``%xmode``."""

    def run(scene: Scene) -> str:
        shell = InteractiveShell(user_ns={"client": scene.client})
        scene.server.script(problem(403, f"Bearer {TOKEN} is bad"))
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            shell.run_line_magic("xmode", mode)
            shell.run_cell("client.get_transfer('t')", store_history=False)
            shell.run_cell("client", store_history=False)
            shell.run_cell("client.settings", store_history=False)
        scene.server.script(answer({"id": "t"}))
        text = printed.getvalue()
        assert "PermissionDenied" in text
        return text

    return run


def every_notebook_format(scene: Scene) -> str:
    shell = InteractiveShell()
    formatter = shell.display_formatter
    assert formatter is not None
    formatter.active_types = formatter.format_types
    return "\n".join(str(formatter.format(thing)) for thing in scene.objects)


def an_executed_notebook(scene: Scene) -> str:
    """The file of a notebook whose cells show a client and fail, with verbose tracebacks."""
    cells = [
        "%xmode Verbose",
        "import fundlab as fl\nclient = fl.connect()",
        "client",
        "client.settings",
        "vars(client)",
        "client.get_transfer('t')",
    ]
    nbclient, nbformat = needs("nbclient"), needs("nbformat")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    scene.server.script(problem(403, f"Bearer {TOKEN} is bad"))
    variables = {
        "FUNDLAB_BASE_URL": scene.server.url,
        "FUNDLAB_AUTH_URL": scene.server.url,
        "FUNDLAB_CLIENT_ID": "client-1",
        "FUNDLAB_CLIENT_SECRET": SECRET,
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        nbclient.NotebookClient(notebook, timeout=180, allow_errors=True).execute()
    scene.server.script(answer({"id": "t"}))
    text: str = nbformat.writes(notebook)
    assert "PermissionDenied" in text
    assert "client-1" in text
    return text


def a_program_that_dies(scene: Scene) -> str:
    """Standard output and error of a process with an exception that nobody catches."""
    program = (
        "import faulthandler, logging, fundlab as fl\n"
        "logging.basicConfig(level='DEBUG')\n"
        "client = fl.connect()\n"
        "faulthandler.dump_traceback()\n"
        "client.get_transfer('t')\n"
    )
    scene.server.script(problem(403, f"Bearer {TOKEN} is bad"))
    died = subprocess.run(
        [sys.executable, "-c", program],
        env={
            "FUNDLAB_BASE_URL": scene.server.url, "FUNDLAB_AUTH_URL": scene.server.url,
            "FUNDLAB_CLIENT_ID": "c", "FUNDLAB_CLIENT_SECRET": SECRET,
            "PATH": "", "PYTHONPATH": str(Path(errors.__file__).parents[1]),
        },
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    scene.server.script(answer({"id": "t"}))
    assert "PermissionDenied" in died.stderr
    return died.stdout + died.stderr


def a_thread_that_dies(scene: Scene) -> str:
    stream = io.StringIO()
    scene.server.script(problem(403, f"Bearer {TOKEN} is bad"))
    thread = threading.Thread(target=scene.client.get_transfer, args=("t",))
    hook, threading.excepthook = threading.excepthook, threading.__excepthook__
    with contextlib.redirect_stderr(stream):
        thread.start()
        thread.join()
    threading.excepthook = hook
    scene.server.script(answer({"id": "t"}))
    assert "PermissionDenied" in stream.getvalue()
    return stream.getvalue()


def frames_in_mid_call(scene: Scene) -> str:
    """Every local of every frame of a thread that waits for an answer, as a profiler shows it."""
    shown = []
    waiting, go_on = threading.Event(), threading.Event()

    def hold(connection: Any, request: Any) -> None:
        waiting.set()
        go_on.wait(10)
        connection.sendall(answer({"id": "t"}))

    scene.server.script(hold)
    thread = threading.Thread(target=scene.client.get_transfer, args=("t",))
    thread.start()
    assert waiting.wait(10)
    frame: Any = sys._current_frames()[thread.ident or 0]
    while frame is not None:
        shown.append(f"{frame.f_code.co_qualname}: {frame.f_locals!r}")
        frame = frame.f_back
    go_on.set()
    thread.join()
    scene.server.script(answer({"id": "t"}))
    assert any("get_transfer" in text for text in shown)
    return "\n".join(shown)


def warnings_of_a_client(scene: Scene) -> str:
    scene.server.script(answer({"id": "t", "status": "NEW", "type": "NEW"}))
    with warnings.catch_warnings(record=True) as caught_warnings:
        warnings.simplefilter("always")
        with fresh_client(scene.server, scene.folder) as client:
            client.get_transfer("t")
    scene.server.script(answer({"id": "t"}))
    assert caught_warnings
    return "\n".join(f"{warning} {vars(warning)}" for warning in caught_warnings)


def files_of_a_store(scene: Scene) -> bytes:
    """Every byte that a sync of everything leaves on disk."""
    scene.server.script(answer({"items": [], "events": [], "addresses": []}))
    Store(scene.folder / "store").sync(scene.client)
    scene.server.script(answer({"id": "t"}))
    files = [path for path in (scene.folder / "store").rglob("*") if path.is_file()]
    assert files
    return b"".join(path.read_bytes() + str(path).encode() for path in files)


def requests_but_for_the_tokens(scene: Scene) -> str:
    """Secret and password stand in no request but the one for a token, and there in the form."""
    urls = [request.target for request in scene.server.token_requests]
    heads = [f"{request.target} {request.headers}" for request in scene.server.received]
    bodies = [str(request.body) for request in scene.server.received]
    assert heads
    return "\n".join([*urls, *heads, *bodies]).replace(f"Bearer {TOKEN}", "Bearer")


def shelved(thing: Any, folder: Path) -> bytes:
    with (
        contextlib.suppress(TypeError, pickle.PicklingError, AttributeError),
        shelve.open(str(folder / "shelf")) as shelf,
    ):
        shelf["it"] = thing
    return b"".join(path.read_bytes() for path in folder.glob("shelf*"))


def doctors_findings(scene: Scene) -> str:
    healthy = repr(doctor(scene.client.settings))
    scene.server.token_answers[:] = [problem(400, f"no {SECRET}")]
    sick = repr(doctor(scene.client.settings))
    scene.server.token_answers[:] = [scripted.token()]
    assert "token" in sick
    return healthy + sick


WAYS: dict[str, Callable[[Scene], Any]] = {
    # what a user types to look at an object
    "repr": each_object(repr),
    "str": each_object(str),
    "format": each_object(lambda thing: f"{thing}"),
    "format with a width": each_object(lambda thing: f"{thing:>99}"),
    "%s": each_object(lambda thing: "%s %r" % (thing, thing)),  # noqa: UP031
    "ascii": each_object(ascii),
    "vars": each_object(vars),
    "dir": each_object(dir),
    "inspect.getmembers": each_object(of_every_attribute),
    "pprint": each_object(pprint.pformat),
    "rich.pretty": each_object(lambda thing: pretty_repr(thing, expand_all=True)),
    "IPython's pretty": each_object(ipython_pretty),
    "help": each_object(lambda thing: pydoc.render_doc(thing, renderer=pydoc.plaintext)),
    "dataclasses.asdict": each_object(lambda thing: dataclasses.asdict(thing)),
    "dataclasses.astuple": each_object(lambda thing: dataclasses.astuple(thing)),
    "__getstate__": each_object(lambda thing: thing.__getstate__()),
    "hash": each_object(lambda thing: hash(thing)),
    # what writes an object
    "json": each_object(json.dumps),
    "json, default=repr": each_object(lambda thing: json.dumps(thing, default=repr)),
    "json, default=vars": each_object(lambda thing: json.dumps(thing, default=vars)),
    "pickle": each_object(pickle.dumps),
    "pickle, every protocol": each_object(
        lambda thing: b"".join(pickle.dumps(thing, protocol) for protocol in range(6))
    ),
    "multiprocessing": each_object(lambda thing: bytes(ForkingPickler.dumps(thing))),
    "marshal": each_object(marshal.dumps),
    "copy": each_object(lambda thing: repr(vars(copy.copy(thing)))),
    "deepcopy": each_object(lambda thing: repr(vars(copy.deepcopy(thing)))),
    "shelve": lambda scene: b"".join(shelved(thing, scene.folder) for thing in scene.objects),
    "every text in memory that hangs on it": each_object(reachable_texts),
    # a secret by itself
    "secret: in a list": each_secret(lambda secret: [secret, {secret: secret}]),
    "secret: iterated": each_secret(list),
    "secret: joined": each_secret("".join),
    "secret: added": each_secret(lambda secret: "" + secret),
    "secret: indexed": each_secret(lambda secret: secret[0:]),
    "secret: encoded": each_secret(lambda secret: secret.encode()),
    "secret: compared": each_secret(lambda secret: secret < secret),
    "secret: changed": each_secret(lambda secret: setattr(secret, "reveal", None)),
    # errors and tracebacks
    "error: str": each_error(str),
    "error: repr": each_error(repr),
    "error: args": each_error(lambda error: error.args),
    "error: vars": each_error(vars),
    "error: pickle": each_error(pickle.dumps),
    "error: every text in memory": each_error(
        lambda error: reachable_texts(copy.copy(error).with_traceback(None))
    ),
    "error: cause and context": each_error(lambda error: (error.__cause__, error.__context__)),
    "traceback: plain": each_error(lambda error: "".join(traceback.format_exception(error))),
    "traceback: with locals": each_error(
        lambda error: "".join(
            traceback.TracebackException.from_exception(error, capture_locals=True).format()
        )
    ),
    "traceback: rich, with locals": each_error(rich_traceback),
    "traceback: %xmode Plain": in_ipython("Plain"),
    "traceback: %xmode Context": in_ipython("Context"),
    "traceback: %xmode Verbose": in_ipython("Verbose"),
    "traceback: %xmode Docs": in_ipython("Docs"),
    "traceback: of a thread": a_thread_that_dies,
    "frames in mid-call": frames_in_mid_call,
    # logs
    "logs at DEBUG, of all libraries": lambda scene: scene.logs,
    "logs: exc_info": each_error(lambda error: logged(error, logging.StreamHandler)),
    "logs: rich, with locals": each_error(lambda error: logged(error, rich_handler)),
    "warnings": warnings_of_a_client,
    # notebooks, processes, files, the wire
    "notebook: every format": every_notebook_format,
    "notebook: executed and saved": an_executed_notebook,
    "process: title and arguments": lambda scene: (
        psutil.Process().name(), psutil.Process().cmdline(), sys.argv,
    ),
    "process: environment": lambda scene: psutil.Process().environ(),
    "process: one that dies, at DEBUG": a_program_that_dies,
    "files of a store": files_of_a_store,
    "files of a key": lambda scene: (scene.folder / "key.pem").read_bytes(),
    "doctor": doctors_findings,
    "requests": requests_but_for_the_tokens,
}  # fmt: skip


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::DeprecationWarning:IPython", "ignore::ResourceWarning")
@pytest.mark.parametrize("way", WAYS)
def test_no_secret_leaks(way: str, scene: Scene) -> None:
    shown = WAYS[way](scene)
    assert shown
    assert leaked(shown) == []


def test_the_canaries_are_in_use(scene: Scene) -> None:
    """Else the ways above would find nothing whatever they did."""
    assert "client-1" in WAYS["every text in memory that hangs on it"](scene)
    assert [secret.reveal() for secret in scene.secrets] == [SECRET, PASSWORD, TOKEN]
    assert SECRET.encode() in scene.server.token_requests[0].body
    assert leaked(repr(scene.server.received[0].headers)) == [TOKEN]
    assert "list_transfers 200" in scene.logs
    assert len(scene.raised) == 8
