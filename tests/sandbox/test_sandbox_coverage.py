"""No row of the interface's tables (§§1 to 8) is without a test, and none is missing.

The rows stand in ``interface_tables``, written by hand, and are compared with ``fundlab.models``
here, so that neither can leave one out.
"""

from __future__ import annotations

import ast
import re
from enum import StrEnum
from pathlib import Path
from typing import get_args

import pytest
from interface_tables import (
    ANSWERS,
    ENUMERATIONS,
    ERRORS,
    FAULTS,
    LIMITS,
    ONLY_READ,
    OPERATIONS,
    QUERIES,
    REQUESTS,
    RESOURCES,
    ROWS,
    TABLES,
    TRANSITIONS,
)

from fundlab import models
from fundlab.sandbox.faults import FaultKind
from fundlab.sandbox.openapi import PROBLEMS

BY_ROW = {"FIELDS", "BODY_FIELDS", "PARAMETERS", "OPERATIONS", "REQUESTS"}
"""Names that tests use for the tables of ``interface_tables`` and their rows."""
STATES = {
    "3.1": models.FiatAccountStatus,
    "3.2": models.DepositInstructionsStatus,
    "3.3": models.TransferStatus,
}

# ---------------------------------------------------------------------------- rows have tests


def defined_tests() -> dict[str, str]:
    """Name of each test of the sandbox → what it says it is about.

    A test that runs once for each row of one of ``interface_tables`` is about what its module says.
    """
    found = {}
    for path in Path(__file__).parent.glob("test_sandbox_*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        module = ast.get_docstring(tree) or ""
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                about = module if parametrised_with(node) & BY_ROW else ""
                found[node.name] = f"{about} {ast.get_docstring(node) or ''} "
    return found


def parametrised_with(test: ast.FunctionDef) -> set[str]:
    """Names of the tables that the test is parametrised with."""
    return {
        decorator.args[1].id
        for decorator in test.decorator_list
        if isinstance(decorator, ast.Call)
        and len(decorator.args) > 1
        and isinstance(decorator.args[1], ast.Name)
    }


def test_every_row_has_a_test_that_exists() -> None:
    defined = defined_tests().keys()
    missing = {row: tests for row, tests in ROWS.items() if not tests or not defined >= set(tests)}
    assert missing == {}
    assert len(ROWS) == sum(len(table) for table in TABLES), "a row stands in two tables"


def test_every_test_of_a_row_names_its_section() -> None:
    defined = defined_tests()
    silent = {
        (row, test)
        for row, tests in ROWS.items()
        if (section := re.match(r"[1-8](\.[0-9]+)?(?= )", row))
        for test in tests
        if not re.search(rf"§{re.escape(section[0])}(?![0-9]|\.[0-9])", defined.get(test, ""))
    }
    assert silent == set()


# ---------------------------------------------------------------------------- rows are all there


def model_fields(name: str) -> set[str]:
    fields = getattr(models, name).model_fields
    return {field.alias or own for own, field in fields.items()}


@pytest.mark.parametrize("resource", RESOURCES)
def test_the_table_of_a_resource_is_its_model(resource: str) -> None:
    only_read = ONLY_READ.get(resource, set())
    assert model_fields(resource.partition(" ")[2]) == set(RESOURCES[resource]) | only_read


def test_no_resource_is_missing() -> None:
    known = {name.partition(" ")[2] for name in RESOURCES}
    resources = {
        name
        for name, kind in vars(models).items()
        if isinstance(kind, type) and issubclass(kind, models.Resource) and name[0] != "_"
    }
    assert resources - known - {"Resource"} == set()


def test_no_member_of_an_enumeration_is_missing() -> None:
    for name, members in ENUMERATIONS.items():
        assert set(members) == {str(member) for member in getattr(models, name.partition(" ")[2])}
    assert {name.partition(" ")[2] for name in ENUMERATIONS} == {
        name
        for name, kind in vars(models).items()
        if isinstance(kind, type) and issubclass(kind, StrEnum) and kind is not StrEnum
    }


def test_no_operation_body_or_parameter_is_missing() -> None:
    assert {
        name: (operation.section, operation.method, operation.path, operation.scope)
        for name, operation in models.OPERATIONS.items()
    } == OPERATIONS
    for name, operation in models.OPERATIONS.items():
        body, query = operation.body, operation.query
        assert (body is not None) == (name in REQUESTS)
        assert (query is not None) == (name in QUERIES)
        if body is not None:
            assert model_fields(body.__name__) == set(REQUESTS[name])
        if query is not None:
            assert model_fields(query.__name__) == set(QUERIES[name])


def test_no_answer_of_an_operation_is_missing() -> None:
    sections = {row.partition(" ")[0] for row in ANSWERS}
    assert sections == {operation.section for operation in models.OPERATIONS.values()} | {"6"}


def test_no_state_is_without_a_way_to_it() -> None:
    reached = {(row[:3], state) for row in TRANSITIONS for state in re.findall(r"→ ([A-Z]+)", row)}
    assert reached == {(section, str(state)) for section, kind in STATES.items() for state in kind}


def test_no_limited_filter_is_missing() -> None:
    wanted = {"ids", "crypto_networks", "addresses", "nicknames"}
    assert wanted == {
        row.rpartition(" ")[2] for row in LIMITS if row.startswith("8 filter list size")
    }
    assert {row.partition(":")[0] for row in LIMITS} == {
        "8 access token lifetime", "8 signature validity", "8 metadata of deposit instructions",
        "8 metadata of fiat accounts", "8 metadata of transfers", "8 filter list size",
        "8 page size of crypto destination addresses", "8 page size of events",
        "8 sandbox deposit processing",
    }  # fmt: skip


def test_no_problem_or_fault_is_missing() -> None:
    statuses = {int(row[:3]) for row in ERRORS if row[:3].isdigit()}
    assert statuses >= set(PROBLEMS)
    assert {row.removeprefix("fault ") for row in FAULTS} == set(get_args(FaultKind))
