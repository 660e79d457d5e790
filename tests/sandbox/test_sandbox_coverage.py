"""No row of the interface's tables (§§1 to 8) is without a test, and none is missing.

The rows stand in ``coverage_rows`` and ``interface_tables``, written by hand, and are compared with
``fundlab.models`` here, so that neither can leave one out.
"""

from __future__ import annotations

import ast
import re
from enum import StrEnum
from pathlib import Path
from typing import get_args

import pytest
from coverage_rows import ERRORS, FAULTS, ROWS, TABLES
from interface_tables import ENUMERATIONS, ONLY_READ, OPERATIONS, QUERIES, REQUESTS, RESOURCES

from fundlab import models
from fundlab.sandbox.faults import FaultKind
from fundlab.sandbox.openapi import PROBLEMS

# ---------------------------------------------------------------------------- rows have tests


def defined_tests() -> dict[str, str]:
    """Name of each test of the sandbox → what its module and itself say they are about."""
    found = {}
    for path in Path(__file__).parent.glob("test_sandbox_*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        about = ast.get_docstring(tree) or ""
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                found[node.name] = f"{about} {ast.get_docstring(node) or ''} "
    return found


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


def test_no_problem_or_fault_is_missing() -> None:
    statuses = {int(row[:3]) for row in ERRORS if row[:3].isdigit()}
    assert statuses >= set(PROBLEMS)
    assert {row.removeprefix("fault ") for row in FAULTS} == set(get_args(FaultKind))
