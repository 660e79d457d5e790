"""What is sent to the service (§4): bodies, and what lists may be asked for.

One profile of requests, for the client and plans before anything leaves and for the sandbox on
arrival: what the interface and the live reference require of members, characters and lengths. The
JSON Schema that the sandbox serves is made of the same words.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from decimal import Decimal
from typing import Annotated, Any, ClassVar, Final, Literal, Self, TypeVar, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    StringConstraints,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError

from fundlab.base.errors import InvalidRequest, shorten
from fundlab.base.exact import MAX_FRACTION_DIGITS
from fundlab.base.values import Amount, Instant, plain_text
from fundlab.models.enumerations import (
    CryptoNetwork,
    FiatNetwork,
    Open,
    Order,
    RoutingNumberType,
    StableAsset,
    TransferStatus,
    TransferType,
)
from fundlab.models.json_schema import (
    Constraint,
    Schema,
    closed,
    exactly_one,
    positive,
    when,
    with_rules,
)
from fundlab.models.resources import MAKES_ONCE
from fundlab.settings.secret import without_numbers

__all__ = [
    "AMONG", "MAX_CUBIX_MEMO", "MAX_FILTER_ENTRIES", "MAX_METADATA_LENGTH", "MAX_METADATA_PAIRS",
    "MAX_WIRE_MEMO", "ConversionTarget", "CreateCryptoWithdrawalFee", "CreateDepositAddress",
    "CreateFiatAccount", "CreateFiatDepositInstructions", "CreateFiatWithdrawal",
    "CreateOrchestrationRule", "CryptoDestinationAddressQuery", "EventQuery", "FiatAccountQuery",
    "FiatDepositInstructionsQuery", "Filter", "Id", "InitiateSandboxFiatDeposit",
    "InstructionsInput", "Metadata", "OwnerInput", "PositiveAmount", "Query", "Request",
    "TransferQuery", "UpdateFiatAccount",
]  # fmt: skip

MAX_METADATA_PAIRS: Final = 6
MAX_METADATA_LENGTH: Final = 100
MAX_WIRE_MEMO: Final = 100
MAX_CUBIX_MEMO: Final = 40
MAX_LINE: Final = 35
CHARACTERS: Final = r"[0-9A-Za-z /?:().,&'+-]"
"""Of an address line and of a memo."""
MODEL_NAMES: Final = {"page_size": "limit"}
"""Keywords that the interface knows under another name."""
_PRIVATE: Final = {"fiat_account_owner", "fiat_network_instructions", "metadata"}
_MASKED: Final = re.compile(r"(?:X+|•+).{0,4}", re.DOTALL)  # by a service, or as shown here
_AMOUNTS: Final = ("amount", "total")
_LENIENT: Final = ContextVar("lenient", default=False)

Given = TypeVar("Given", bound=BaseModel)
T = TypeVar("T")


@contextmanager
def leniently(lenient: bool = True) -> Iterator[None]:
    """Within it, bank details may lack what only the live reference requires of them (a country,
    an owner's address, a bank's name and address, a person's names), and characters and lengths of
    address lines and memos are free: for a deployment that is laxer."""
    before = _LENIENT.set(lenient)
    try:
        yield
    finally:
        _LENIENT.reset(before)


def _refusing(is_wrong: Callable[[Any], object], message: str) -> BeforeValidator:
    """Before a value is read; ``{}`` of the message is the beginning of a text."""

    def refuse(value: Any) -> Any:
        if is_wrong(value):
            raise ValueError(message.format(ascii(value[:40]) if isinstance(value, str) else ""))
        return value

    return BeforeValidator(refuse)


def _need(value: object) -> object:
    if value is None and not _LENIENT.get():
        raise PydanticCustomError("missing", "is missing")
    return value


def _free_if_lenient(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
    try:
        return handler(value)
    except ValidationError:
        if _LENIENT.get() and isinstance(value, str):
            return value or None
        raise


def _or_absent(text: str) -> str | None:
    return text or None


Optional = Annotated[  # a default is not looked at
    T | None,
    _refusing(lambda value: value is None, "null is not a valid value; leave the member out"),
]
"""A member that may be left out."""
Needed = Annotated[T | None, Field(validate_default=True), BeforeValidator(_need)]
"""A member that the live reference requires: ``None`` only for a deployment that is laxer."""
Text = Annotated[str, StringConstraints(min_length=1)]
Id = Text
Line = Annotated[
    str,
    StringConstraints(min_length=1, max_length=MAX_LINE, pattern=f"^{CHARACTERS}+$"),
    WrapValidator(_free_if_lenient),
]
EmptyLine = Annotated[
    str,
    StringConstraints(max_length=MAX_LINE, pattern=f"^{CHARACTERS}*$"),
    AfterValidator(_or_absent),
    WrapValidator(_free_if_lenient),
]
"""As good as absent where it is empty (§2.1)."""
Memo = Annotated[
    str,
    StringConstraints(max_length=MAX_WIRE_MEMO, pattern=f"^{CHARACTERS}*$"),
    AfterValidator(_or_absent),
    WrapValidator(_free_if_lenient),
]
MetadataText = Annotated[str, StringConstraints(max_length=MAX_METADATA_LENGTH)]
Metadata = Annotated[dict[MetadataText, MetadataText], Field(max_length=MAX_METADATA_PAIRS)]
ConversionTarget = Literal["NO_CONVERSION", "USD"]
"""What stablecoins that arrive at a deposit address become."""


CENTS_DECIMALS: Final = 2
CENTS: Final = positive(CENTS_DECIMALS)
UNITS: Final = positive(MAX_FRACTION_DIGITS)
PositiveAmount = Annotated[
    Amount,
    _refusing(  # a number of JSON may have lost digits already
        lambda value: not isinstance(value, str | Amount),
        "must be a decimal string such as '100.00'",
    ),
    Constraint(UNITS, "must be greater than 0"),
]
FiatAmount = Annotated[
    PositiveAmount, Constraint(CENTS, "has more than 2 decimals, too many for USD (zeros count)")
]


class Part(BaseModel):
    """An object within a request, with no other members than its own."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, hide_input_in_errors=True, defer_build=MAKES_ONCE
    )
    constraints: ClassVar[tuple[Constraint, ...]] = ()
    """What holds between members."""

    @model_validator(mode="after")
    def _check_constraints(self) -> Self:
        if self.constraints:
            members = self.to_json()
            for constraint in self.constraints:
                constraint.check(members)
        return self

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        for name, value in super().__repr_args__():
            yield name, without_numbers(value, f".{name}")

    def to_json(self) -> dict[str, Any]:
        """The members that were given."""
        return self.model_dump(mode="json", exclude_none=True)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        reference = handler(core_schema)
        schema = handler.resolve_ref_schema(reference)
        made = closed(schema)
        needed = [name for name, field in cls.model_fields.items() if field.validate_default]
        if needed:
            made["required"] = [*made.get("required", ()), *needed]
        made = with_rules(made, [constraint.schema for constraint in cls.constraints])
        schema.clear()
        schema.update(made)
        return reference


ONE_MEMBER: Final[Schema] = {"minProperties": 1, "maxProperties": 1}


class Request(Part):
    """A body sent to the service."""


class AddressInput(Part):
    """§2.1"""

    country: Needed[Text] = None
    address1: Optional[Line] = None
    address2: Optional[EmptyLine] = None
    city: Optional[Line] = None
    province: Optional[Line] = None
    zip_code: Optional[Line] = None


class RoutingDetailsInput(Part):
    """§2.1"""

    routing_number_type: RoutingNumberType
    routing_number: Text
    bank_name: Needed[Text] = None
    bank_address: Needed[AddressInput] = None


class WireInput(Part):
    """§2.1"""

    account_number: Text
    fiat_account_owner_address: Needed[AddressInput] = None
    routing_details: RoutingDetailsInput
    intermediary_routing_details: Optional[RoutingDetailsInput] = None


class CubixInput(Part):
    """The account at the CUBIX bank, in the layout of the live service."""

    account_id: Text


class InstructionsInput(Part):
    """§2.1: the account to pay."""

    wire: Optional[WireInput] = None
    cubix: Optional[CubixInput] = None
    wallet_address: Optional[Text] = None

    constraints = (Constraint(ONE_MEMBER, "give exactly one of wire, cubix and wallet_address"),)


class RoutingDetailsChange(Part):
    """What an update changes of routing details."""

    routing_number_type: Optional[RoutingNumberType] = None
    routing_number: Optional[Text] = None
    bank_name: Optional[Text] = None
    bank_address: Optional[AddressInput] = None


class WireChange(Part):
    """What an update changes of a wire."""

    account_number: Optional[Text] = None
    fiat_account_owner_address: Optional[AddressInput] = None
    routing_details: Optional[RoutingDetailsChange] = None
    intermediary_routing_details: Optional[RoutingDetailsChange] = None


class InstructionsChange(Part):
    """What an update changes of the account to pay."""

    wire: Optional[WireChange] = None
    cubix: Optional[CubixInput] = None
    wallet_address: Optional[Text] = None

    constraints = InstructionsInput.constraints


class InstitutionInput(Part):
    """§2.1"""

    name: Text


class PersonInput(Part):
    """§2.1"""

    first_name: Needed[Text] = None
    last_name: Needed[Text] = None


class OwnerInput(Part):
    """§2.1"""

    institution_details: Optional[InstitutionInput] = None
    person_details: Optional[PersonInput] = None

    constraints = (
        Constraint(ONE_MEMBER, "give exactly one of institution_details and person_details"),
    )


def changed_instructions(before: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Network instructions after an update: of the same kind, what is not ``given`` stays."""

    def changed(old: Any, new: Any) -> Any:
        if not isinstance(new, Mapping):
            return new
        kept = old if isinstance(old, Mapping) else {}
        return {**kept, **{name: changed(kept.get(name), value) for name, value in new.items()}}

    return {kind: changed(before.get(kind), details) for kind, details in given.items()}


class CreateFiatDepositInstructions(Request):
    """§4.1. ``routing_number_type`` goes with ``WIRE`` and only with it."""

    profile_id: Id
    fiat_network: FiatNetwork
    routing_number_type: Optional[RoutingNumberType] = None
    identity_id: Optional[Id] = None
    account_id: Optional[Id] = None
    ref_id: Optional[Id] = None
    metadata: Optional[Metadata] = None

    constraints = (
        Constraint(
            {
                "oneOf": [
                    {"properties": {"fiat_network": {"const": "CUBIX"}}},
                    {"required": ["routing_number_type"]},
                ]
            },
            "routing_number_type is needed for WIRE and omitted for CUBIX",
        ),
    )


class InitiateSandboxFiatDeposit(Request):
    """§4.4"""

    amount: FiatAmount
    asset: Literal["USD"]
    memo_id: Id
    fiat_network_instructions: InstructionsInput
    fiat_account_owner: Optional[OwnerInput] = None


class CreateFiatAccount(Request):
    """§4.8"""

    ref_id: Optional[Id] = None
    identity_id: Optional[Id] = None
    account_id: Optional[Id] = None
    fiat_account_owner: OwnerInput
    fiat_network_instructions: InstructionsInput
    metadata: Optional[Metadata] = None


class UpdateFiatAccount(Request):
    """§4.10. Every field optional, and so is every one of a wire's."""

    fiat_account_owner: Optional[OwnerInput] = None
    fiat_network_instructions: Optional[InstructionsChange] = None
    metadata: Optional[Metadata] = None


AMOUNT_OR_TOTAL: Final = Constraint(exactly_one(*_AMOUNTS), "give exactly one of amount and total")


class CreateFiatWithdrawal(Request):
    """§4.12. Exactly one of ``amount`` and ``total``, which includes the fee."""

    ref_id: Optional[Id] = None
    amount: Optional[FiatAmount] = None
    total: Optional[FiatAmount] = None
    asset: Literal["USD"]
    fiat_account_id: Id
    profile_id: Id
    identity_id: Optional[Id] = None
    account_id: Optional[Id] = None
    memo: Optional[Memo] = None
    metadata: Optional[Metadata] = None

    constraints = (AMOUNT_OR_TOTAL,)


class CreateDepositAddress(Request):
    """§4.13"""

    profile_id: Id
    crypto_network: CryptoNetwork
    ref_id: Optional[Id] = None
    identity_id: Optional[Id] = None
    account_id: Optional[Id] = None
    conversion_target_asset: Optional[ConversionTarget] = None
    metadata: Optional[Metadata] = None


class CryptoSource(Part):
    """§2.6: an existing deposit address by id or address, or a new one on a network."""

    address_id: Optional[Id] = None
    address: Optional[Text] = None
    network: CryptoNetwork


class FiatSource(Part):
    """§2.6: existing deposit instructions by id or memo, or new ones for a network."""

    deposit_instructions_id: Optional[Id] = None
    network: Optional[FiatNetwork] = None
    account_type: Optional[RoutingNumberType] = None
    memo_id: Optional[Id] = None

    constraints = (
        Constraint(
            {
                "anyOf": [
                    {"required": ["deposit_instructions_id"]},
                    {"required": ["memo_id"]},
                    {
                        "required": ["network", "account_type"],
                        "properties": {"network": {"const": "WIRE"}},
                    },
                    {
                        "required": ["network"],
                        "properties": {"network": {"const": "CUBIX"}},
                        "not": {"required": ["account_type"]},
                    },
                ]
            },
            "give deposit_instructions_id, memo_id or network: WIRE with account_type ABA or "
            "SWIFT, or CUBIX without",
        ),
    )


class ProfileInput(Part):
    """§2.6"""

    profile_id: Id


class RuleSource(Part):
    """§2.6: one of three variants."""

    crypto: Optional[CryptoSource] = None
    fiat: Optional[FiatSource] = None
    profile: Optional[ProfileInput] = None

    constraints = (Constraint(ONE_MEMBER, "give exactly one of crypto, fiat and profile"),)


class CryptoDestination(Part):
    """§2.6"""

    address: Optional[Text] = None
    network: CryptoNetwork


class FiatDestination(Part):
    """§2.6"""

    fiat_account_id: Id
    memo: Optional[Memo] = None


class RuleDestination(Part):
    """§2.6: one of three variants."""

    crypto: Optional[CryptoDestination] = None
    fiat: Optional[FiatDestination] = None
    profile: Optional[ProfileInput] = None

    constraints = RuleSource.constraints


class CreateOrchestrationRule(Request):
    """§2.6, §4.14. Source and destination assets differ."""

    ref_id: Id
    profile_id: Id
    source_asset: StableAsset
    destination_asset: StableAsset
    source: RuleSource
    nickname: Optional[str] = None
    identity_id: Optional[Id] = None
    account_id: Optional[Id] = None
    destination: Optional[RuleDestination] = None

    constraints = (
        Constraint(
            {
                "oneOf": [
                    {
                        "properties": {
                            "source_asset": {"const": asset.value},
                            "destination_asset": {
                                "enum": [other.value for other in StableAsset if other != asset]
                            },
                        }
                    }
                    for asset in StableAsset
                ]
            },
            "source_asset must differ from destination_asset",
        ),
    )


class CreateCryptoWithdrawalFee(Request):
    """§4.16. Exactly one of ``amount`` and ``total``."""

    asset: Id
    destination_address: Text
    crypto_network: CryptoNetwork
    amount: Optional[PositiveAmount] = None
    total: Optional[PositiveAmount] = None
    identity_id: Optional[Id] = None

    constraints = (
        AMOUNT_OR_TOTAL,
        *(
            Constraint(
                when(
                    "asset", [asset.value for asset in StableAsset], {"properties": {name: CENTS}}
                ),
                f"{name} has more than 2 decimals, too many for this asset (zeros count)",
            )
            for name in _AMOUNTS
        ),
    )


# --------------------------------------------------------------- from keywords to what is sent


def checked(
    model: type[Given], operation: str, values: Mapping[str, Any], *, lenient: bool = False
) -> Given:
    """``values`` (keywords of an operation, those that are not ``None``) as ``model``; ``lenient``
    as ``leniently``.

    Raises ``InvalidRequest`` naming what is wrong; it repeats nothing of bank details and metadata.
    """
    keywords = {MODEL_NAMES.get(name, name): name for name in values}
    given = {
        name: wire_value(values[keyword], number=name in _AMOUNTS)
        for name, keyword in keywords.items()
        if values[keyword] is not None
    }
    problems = []
    try:
        with leniently(lenient):
            return model.model_validate(given)
    except ValidationError as error:
        for item in error.errors(include_url=False):
            problem, location, value = sentence(item, model), item["loc"], item["input"]
            value = getattr(value, "text", value)  # of an amount
            if location:
                showable = location[0] not in _PRIVATE and isinstance(value, str | int | float)
                if showable and repr(value) not in problem:
                    problem += f" ({shorten(value)} given)"
                path = field_path(location)
                problem = f"{keywords.get(path, path)}: {problem}"
            problems.append(problem)
    raise InvalidRequest(f"{operation}: {'; '.join(dict.fromkeys(problems))}; nothing was sent")


def wire_value(value: Any, *, number: bool = False) -> Any:
    """``value`` as JSON has it: of a resource its members; of a ``number``, which has no zeros that
    somebody wrote, an amount with two decimals at least where it has that many."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", exclude_none=True)
    if isinstance(value, Mapping):
        return {name: wire_value(member) for name, member in value.items()}
    if number and isinstance(value, int | Decimal) and not isinstance(value, Amount | bool):
        try:
            amount = Amount(value)
        except ValueError:
            return value
        decimals = len(amount.text.partition(".")[2])
        return amount if decimals <= CENTS_DECIMALS else plain_text(amount, CENTS_DECIMALS)
    return value


def body_bytes(request: Request, operation: str) -> bytes:
    """The JSON of ``request``: compact, UTF-8, the bytes that are signed and sent.

    Raises ``InvalidRequest`` for a request without members, and for an account number as lists and
    reprs show it: sent back, the mask would replace the number.
    """
    instructions = getattr(request, "fiat_network_instructions", None)
    for number in ("wire.account_number", "cubix.account_id", "wallet_address"):
        text = instructions
        for name in number.split("."):
            text = getattr(text, name, None)
        if _MASKED.fullmatch(text or ""):
            raise InvalidRequest(
                f"{operation}: fiat_network_instructions.{number} is masked, as it is "
                "shown: it would replace the real one; give the complete number (an attribute of "
                "what get_fiat_account returns); nothing was sent"
            )
    content = request.to_json()
    if not content:
        raise InvalidRequest(
            f"{operation}: nothing to change is given; give one of "
            f"{', '.join(type(request).model_fields)}; nothing was sent"
        )
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=False)
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        at = text[max(0, error.start - 20) : error.start]
    raise InvalidRequest(f"{operation}: not valid Unicode after {at!r}; nothing was sent")


def sentence(error: Mapping[str, Any], model: type[BaseModel] | None = None) -> str:
    """What one of pydantic's errors says; of an unknown member those that ``model`` has there."""
    if error["type"] == "missing":
        return "is missing"
    if error["type"] == "string_pattern_mismatch":  # of a line or a memo
        return "only ASCII letters, digits, spaces and / ? : ( ) . , & ' + - are accepted"
    if error["type"] == "extra_forbidden" and model is not None:
        kinds: list[Any] = [model]
        for name in error["loc"][:-1]:
            field = kinds[-1].model_fields[name]
            kinds.append(next(iter(_models_in(field.annotation))))
        what = "network" if kinds[-1] in (InstructionsInput, InstructionsChange) else "member"
        return f"unknown {what}; known: {', '.join(kinds[-1].model_fields)}"
    message = str(error["msg"]).removeprefix("Value error, ")
    return re.sub(r" after validation, not \w+$", "", message)  # "at most 6 items"


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    for kind in (annotation, *get_args(annotation)):
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield kind
        elif kind is not annotation:
            yield from _models_in(kind)


def field_path(location: tuple[int | str, ...]) -> str:
    """The field's name within its record, without the alternatives that pydantic tried."""
    inner = location
    for depth, part in enumerate(location[:-1]):
        if isinstance(part, int):
            inner = location[depth + 1 :]
            break
    return ".".join(part for part in inner if isinstance(part, str) and part.isidentifier())


# ------------------------------------------------------ what lists may be asked for (§4, §6)

MAX_FILTER_ENTRIES: Final = 100
TIME_PATTERN: Final = (
    r"^(1679|16[89][0-9]|1[789][0-9]{2}|2[01][0-9]{2}|22[0-5][0-9]|2260)-[0-9]{2}-[0-9]{2}[Tt]"
    r"[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?([Zz]|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$"
)
"""Years well inside what 64-bit nanoseconds can hold."""
_DIGITS: Final = re.compile(r"-?[0-9]{1,9}", re.ASCII)
_COMPARED: Final = {
    "lt": "before", "lte": "at or before", "eq": "exactly", "gte": "at or after", "gt": "after",
}  # fmt: skip


def _at(name: str) -> Any:
    """The field of a time that rows are compared with, such as ``created_at.gte``."""
    field, _, comparison = name.partition(".")
    note = f"Only rows whose {field} is {_COMPARED[comparison]} this RFC 3339 time."
    return Field(None, alias=name, description=note, json_schema_extra={"pattern": TIME_PATTERN})


Filter = Annotated[list[T], Field(max_length=MAX_FILTER_ENTRIES)]
"""At most 100 entries, sent by repeating the key."""
Number = Annotated[
    int,
    _refusing(
        lambda value: isinstance(value, str) and not _DIGITS.fullmatch(value),
        "{} is not a whole number",
    ),
]
Flag = Annotated[
    bool,
    _refusing(
        lambda value: isinstance(value, str) and value not in ("true", "false"),
        "{} is neither true nor false",
    ),
]
Cursor = Annotated[str | None, BeforeValidator(lambda given: given or None)]
"""An empty cursor is that of the first page."""
AMONG: Final[Any] = Field(
    None, description="Only rows with one of these values: repeat the parameter."
)
_order: Final = "`ASC` (oldest first) or `DESC`; by `UPDATED_AT` the default is `ASC`."
_order_by: Final[Any] = Field(
    "CREATED_AT",
    description="The time to go by; it must match the time filter where there is one.",
)


class Query(BaseModel):
    """What a list operation is asked for. ``to_params()`` gives the pairs to send, in order."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, populate_by_name=True, defer_build=MAKES_ONCE
    )

    limit: Number = Field(100, ge=1, le=1000, description="Rows on a page.")
    order: Order = Field(Order.DESC, description=_order)
    page_cursor: Cursor = Field(
        None,
        description="`next_page_cursor` of the page before, of the same query in the same order.",
    )
    created_at_lt: Instant | None = _at("created_at.lt")
    created_at_lte: Instant | None = _at("created_at.lte")
    created_at_eq: Instant | None = _at("created_at.eq")
    created_at_gte: Instant | None = _at("created_at.gte")
    created_at_gt: Instant | None = _at("created_at.gt")

    lists: ClassVar[frozenset[str]] = frozenset()
    """The parameters that are arrays: sent by repeating the key."""

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        fields = cls.model_fields.items()
        cls.lists = frozenset(name for name, one in fields if "list[" in str(one.annotation))

    def to_params(self) -> list[tuple[str, str]]:
        pairs: list[tuple[str, str]] = []
        for name, value in self.model_dump(mode="json", by_alias=True, exclude_none=True).items():
            for entry in value if isinstance(value, list) else [value]:
                text = str(entry).lower() if isinstance(entry, bool) else str(entry)
                pairs.append((name, text))
        return pairs


class TransferQuery(Query):
    """§4.5"""

    order_by: Literal["CREATED_AT", "UPDATED_AT"] = _order_by
    ids: Filter[str] | None = AMONG
    ref_ids: Filter[str] | None = AMONG
    profile_ids: Filter[str] | None = AMONG
    identity_ids: Filter[str] | None = AMONG
    account_ids: Filter[str] | None = AMONG
    group_ids: Filter[str] | None = AMONG
    crypto_tx_hashes: Filter[str] | None = AMONG
    type: Filter[Open[TransferType]] | None = AMONG
    statuses: Filter[Open[TransferStatus]] | None = AMONG
    secondary_statuses: Filter[str] | None = AMONG
    updated_at_lt: Instant | None = _at("updated_at.lt")
    updated_at_lte: Instant | None = _at("updated_at.lte")
    updated_at_eq: Instant | None = _at("updated_at.eq")
    updated_at_gte: Instant | None = _at("updated_at.gte")
    updated_at_gt: Instant | None = _at("updated_at.gt")

    @model_validator(mode="before")
    @classmethod
    def _in_order(cls, given: dict[str, Any]) -> dict[str, Any]:
        """By the time that is filtered on, and by the last change oldest first."""
        given = {name: value for name, value in given.items() if value is not None}
        filtered = {name[:10].upper() for name in given} & {"CREATED_AT", "UPDATED_AT"}
        order_by = given.get("order_by", max(filtered, default="CREATED_AT"))
        for time in sorted(filtered - {order_by}) if isinstance(order_by, str) else ():
            raise ValueError(f"order_by {order_by} does not match the filter on {time.lower()}")
        order = "ASC" if order_by == "UPDATED_AT" else "DESC"
        return {"order": order, "order_by": order_by, **given}


class FiatAccountQuery(Query):
    """§4.11"""

    order_by: Literal["CREATED_AT"] = _order_by
    ids: Filter[str] | None = AMONG
    ref_ids: Filter[str] | None = AMONG


class FiatDepositInstructionsQuery(FiatAccountQuery):
    """§4.3"""


class CryptoDestinationAddressQuery(Query):
    """§4.15"""

    order_by: Literal["CREATED_AT"] = _order_by
    ids: Filter[str] | None = AMONG
    crypto_networks: Filter[Open[CryptoNetwork]] | None = AMONG
    addresses: Filter[str] | None = AMONG
    nicknames: Filter[str] | None = AMONG
    bookmarked_status: Flag | None = Field(
        None, description="Only bookmarked addresses, or only others."
    )
    identity_id: str | None = Field(
        None, description="Only addresses of this identity; without it, those of no identity."
    )
    identity_ids: Filter[str] | None = AMONG


class EventQuery(Query):
    """§6. Oldest first by default."""

    limit: Number = Field(100, ge=1, le=100, description="Rows on a page.")
    order: Order = Field(Order.ASC, description=_order)
    type: str | None = Field(None, description="Only rows of this type.")
    is_test: Flag | None = Field(None, description="Test events, or real ones (the default).")
