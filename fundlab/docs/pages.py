"""The pages that are made from what the code knows: the reference, the commands, the interface."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from enum import EnumType
from types import ModuleType, SimpleNamespace
from typing import Annotated, Final, get_origin, get_type_hints

import typer
import typer.cli
from pydantic import BaseModel
from typer.core import TyperGroup

import fundlab
from fundlab.base.errors import shorten
from fundlab.models import OPERATIONS

SECTIONS: Final = {
    "1": ("What the service does", "Moves USD and crypto on and off balances of profiles."),
    "2": ("Resources and their fields", "The records below; ids are UUIDs, amounts decimal text."),
    "2.1": ("Common parts", "Addresses, routing and wire instructions, owners of accounts."),
    "2.2": ("Fiat deposit instructions", "Bank details and the memo id that credits a profile."),
    "2.3": ("Fiat account", "An external bank account that withdrawals may target once approved."),
    "2.4": ("Transfer", "A deposit, withdrawal, conversion or movement, fiat or crypto."),
    "2.5": ("Profile balance", "What a profile holds of an asset: available and trading."),
    "2.6": ("Orchestration rule", "Converts one asset to another between source and destination."),
    "2.7": ("Crypto networks", "The networks that addresses and fees are of."),
    "2.8": ("Crypto destination address", "A saved address that crypto withdrawals may go to."),
    "2.9": ("Crypto withdrawal fee quote", "A fee that is guaranteed until the quote expires."),
    "2.10": ("Event", "Something that happened, with its moment and an object."),
    "3": ("States and transitions", "Which states a resource has, and what moves it on."),
    "3.1": ("States of a fiat account", "PENDING, then APPROVED or REJECTED."),
    "3.2": ("States of deposit instructions", "VALID, then perhaps DEPRECATED."),
    "3.3": ("States of a transfer", "PENDING, then COMPLETED or FAILED."),
    "4": ("Endpoints", "The operations below, each with its scope."),
    "5": ("Authentication", "Who may call."),
    "5.1": ("OAuth 2.0 client credentials", "Tokens of an hour, with scopes."),
    "5.2": ("Request signing", "A compact JWS over the exact body, method and path."),
    "6": ("Events", "The feed of events, its filters and kinds."),
    "7": ("Errors", "What a refusal looks like; here it is raised as fl.errors.ServiceError."),
    "8": ("Limits", "Lifetimes, page sizes, lengths of filters and metadata."),
    "9": ("Versioning", "All paths begin with /v2."),
}  # fmt: skip
"""What the sections of the service's interface are about, but for the operations."""


SUBJECTS: Final = {
    "Prove": "reconcile checks bank audit",
    "Study": "balances flows fees flux events books value sql",
    "Show, report, export": "show id_of charts report exports",
    "Keep what the service says": "Store sample context",
    "Load": "connect Client load_transfers load_balances load_events load_fiat_accounts "
    "load_deposit_instructions load_addresses load_path",
    "Pay": "plan_withdrawal plan_withdrawals wait_for resume journal quote_fee "
    "register_fiat_account plan_account_update plan_deposit deposit_sheet find_deposits "
    "wait_for_deposit simulate_deposit plan_deposit_address plan_rule actions",
    "Exact amounts": "decimals DecimalDtype read_parquet types_mapper",
    "Try things": "sandbox",
    "Settings, errors, the interface": "Settings errors models",
}
"""Every public name once, under what it is for."""


def every(program: TyperGroup) -> dict[str, str]:
    """File name → MyST text of each page that is made."""
    made = dict(reference())
    made |= dict(commands(program))
    made["reference/interface.md"] = interface()
    made["result.html"] = result()
    return made


def llms(made: Mapping[str, str]) -> str:
    """``llms.txt``: what the site has, for assistants; ``made`` is each page's path and title."""
    lines = [
        "# fundlab",
        "",
        f"> {(fundlab.__doc__ or '').splitlines()[0]}",
        "",
        "Begin with guides/for-assistants.html: what to call, and the traps.",
        "",
        "## Pages",
        "",
    ]
    return "\n".join([*lines, *(f"- [{title}]({path})" for path, title in made.items()), ""])


def reference() -> Iterator[tuple[str, str]]:
    """A page for each public name of the package, and one that lists them by subject."""
    lines = ["# Every name, by subject", "", "What `import fundlab as fl` gives.", ""]
    for subject, names in SUBJECTS.items():
        lines += [f"## {subject}", "", "| name | what it is |", "| --- | --- |"]
        for name in names.split():
            value = getattr(fundlab, name)
            said = (inspect.getdoc(value) or "").split("\n\n")[0].replace("\n", " ")
            said = re.split(r"(?<=[.:;]) |[:;]$", said.replace("|", r"\|"))[0].rstrip(":;")
            lines.append(f"| [fl.{name}]({name}.md) | {said.replace('``', '`')} |")
            yield f"reference/{name}.md", page_of(name)
        lines.append("")
    lines += ["## The service", "", "[The sections of its interface](interface.md).", ""]
    every_name = " ".join(SUBJECTS.values()).split()
    lines += ["```{toctree}", ":hidden:", *every_name, "interface", "```", ""]
    yield "reference/index.md", "\n".join(lines)


def result() -> str:
    """What the first page's example shows: the verdict on the sample, and a year's balances."""
    store, charts = fundlab.sample(), fundlab.charts
    daily = fundlab.balances.daily(store.read("transfers"))
    shown = [fundlab.reconcile.judge(store)._repr_html_()]
    for theme, name in ((charts.LIGHT, "light"), (charts.DARK, "dark")):
        figure = charts.balance_course(daily[daily["asset"] == "USD"], theme)
        drawn = charts.to_svg(figure, transparent=True)
        shown.append(f'<div class="only-{name}-figure">{drawn}</div>')
    return f'<div class="result">{"".join(shown)}</div>'


def page_of(name: str) -> str:
    """What autodoc is to say about a public name; of a module, about each of its public names."""
    value = getattr(fundlab, name)
    lines = [f"# fl.{name}", ""]
    if not isinstance(value, ModuleType):
        kind = "autoclass" if inspect.isclass(value) else "autofunction"
        members = "\n   :members:" if kind == "autoclass" else ""
        if inspect.isclass(value) and all("fundlab" in one.__module__ for one in value.mro()[:-1]):
            members += "\n   :inherited-members:"  # and not those of a pandas class
        return "\n".join([*lines, directive(f".. {kind}:: fundlab.{name}{members}")])
    lines += [directive(f".. automodule:: {value.__name__}\n   :no-members:")]
    for member in dir(value):
        held = getattr(value, member)
        path = f"{value.__name__}.{member}"
        if member in fundlab.__all__:
            lines += [f"- [fl.{member}]({member}.md)", ""]
        elif inspect.isclass(held) and issubclass(held, BaseModel):
            lines += [f"## {member}", "", *fields(held), ""]
        elif isinstance(held, EnumType):
            values = ", ".join(f"`{one.value}`" for one in held)  # type: ignore[var-annotated]
            lines += [f"## {member}", "", inspect.getdoc(held) or "", "", f"One of {values}.", ""]
        elif inspect.isclass(held):
            shown = directive(f".. autoclass:: {path}\n   :members:")
            lines += [f"## {member}", "", shown]
        elif inspect.isfunction(held):
            lines += [f"## {member}", "", directive(f".. autofunction:: {path}")]
        elif get_origin(held) is Annotated:  # what it is, and not what checks it
            (plain,) = get_type_hints(SimpleNamespace(__annotations__={member: held})).values()
            lines += [f"- `{member}`: `{inspect.formatannotation(plain)}`"]
        else:
            lines += [f"- `{member}`: `{shorten(held, 200)}`"]
    return "\n".join(lines)


def fields(model: type[BaseModel]) -> list[str]:
    """A table of a model's fields."""
    said = re.sub(
        r"§(\d+(?:\.\d+)?)",
        lambda section: f"[§{section[1]}](#interface-{section[1].replace('.', '-')})",
        inspect.getdoc(model) or "",
    )
    lines = [said, "", "| field | type | |", "| --- | --- | --- |"]
    for name, field in model.model_fields.items():
        hints = [vars(one).get("__annotations__", {}) for one in model.mro()]
        shown = next(str(one[name]) for one in hints if name in one)
        shown = shown.replace(" | None", "").replace("|", "or")
        note = "required" if field.is_required() else ""
        lines.append(f"| `{name}` | `{shown}` | {note} |")
    return lines


def directive(text: str) -> str:
    """A directive of Sphinx within MyST."""
    return f"```{{eval-rst}}\n{text}\n```\n"


def commands(program: TyperGroup) -> Iterator[tuple[str, str]]:
    """A page for each command, as the command line itself describes it, and one that lists them."""
    context: typer.Context
    with program.make_context("fundlab", [], resilient_parsing=True) as context:  # type: ignore[assignment]
        rows = []
        for name, command in program.commands.items():
            yield (
                f"commands/{name}.md",
                typer.cli.get_docs_for_click(
                    obj=command, ctx=context, name=name, call_prefix="fundlab"
                ),
            )
            rows.append(f"| [{name}]({name}.md) | {command.get_short_help_str(200)} |")
        lines = [
            "# Commands",
            "",
            program.help or "",
            "",
            "| `fundlab …` | does |",
            "| --- | --- |",
        ]
        lines += [
            *rows,
            "",
            program.epilog or "",
            "",
            "```{toctree}",
            ":hidden:",
            *program.commands,
        ]
        yield "commands/index.md", "\n".join([*lines, "```", ""])


def interface() -> str:
    """What a section number in a docstring stands for: one line each, and what operations take."""
    operations = {operation.section: operation for operation in OPERATIONS.values()}
    titles = {**SECTIONS, **dict.fromkeys(operations, ("", ""))}
    lines = [
        "# Sections of the service's interface", "",
        "A number such as §4.5 in a docstring is a section of the document that the service's "
        "operator gives its customers. This page says what each is about, so that you can find "
        "it there, and does without it.", "",
    ]  # fmt: skip
    for number in sorted(titles, key=lambda number: [int(part) for part in number.split(".")]):
        title, said = titles[number]
        lines.append(f"(interface-{number.replace('.', '-')})=")
        level = "#" * (2 + number.count("."))
        if number not in operations:
            lines += [f"{level} §{number} {title}", "", said, ""]
            continue
        operation = operations[number]
        name = operation.name
        lines += [
            f"{level} §{number} {name.replace('_', ' ').capitalize()}", "",
            f"`{operation.method} {operation.path}`, scope `{operation.scope}`. "
            f"Here: {{py:meth}}`client.{name}() <fundlab.Client.{name}>`.", "",
        ]  # fmt: skip
        if operation.body is not None:
            lines += ["What is sent:", "", *fields(operation.body), ""]
    return "\n".join(lines)
