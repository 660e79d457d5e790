"""What is done to a running sandbox from another thread: nobody sees it half done."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait

import pytest
from sandbox_caller import Caller, caller_of

from fundlab.sandbox import Sandbox, serve

USES: dict[str, Callable[[Sandbox, Caller], object]] = {
    "token": lambda sandbox, caller: caller.ask_token().status_code,
    "list": lambda sandbox, caller: caller.get("/v2/transfer/transfers").status_code,
    "secret": lambda sandbox, caller: sandbox.client_secret,
    "profiles": lambda sandbox, caller: sandbox.profile_ids,
    "credentials": lambda sandbox, caller: sandbox.control.credentials(),
}


@pytest.mark.parametrize("name", USES)
def test_who_comes_in_the_middle_of_a_change_waits(
    name: str, sandbox: Sandbox, caller: Caller
) -> None:
    caller.token()
    database, before = sandbox._service.database, USES[name](sandbox, caller)
    with ThreadPoolExecutor(1) as pool:
        with database.transaction():
            database.run("CREATE TABLE kept AS SELECT * FROM credentials")
            database.run("CREATE TABLE kept_profiles AS SELECT * FROM profiles")
            database.run("DELETE FROM credentials")
            database.run("DELETE FROM profiles")
            asked: Future[object] = pool.submit(USES[name], sandbox, caller)
            assert not wait([asked], timeout=0.2).done
            database.run("INSERT INTO credentials SELECT * FROM kept")
            database.run("INSERT INTO profiles SELECT * FROM kept_profiles")
        assert asked.result(10) == before


def test_a_reset_under_load_refuses_nobody() -> None:
    with serve(transfers=2_000, profiles=2, clock="manual") as sandbox:
        caller = caller_of(sandbox)
        stopping: list[bool] = []

        def ask() -> set[int]:
            seen = set()
            while not stopping:
                seen.add(caller.ask_token().status_code)
            return seen

        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(ask)
            for _ in range(3):
                sandbox.control.reset()
            stopping.append(True)
            assert asked.result(10) == {200}
        caller.close()
