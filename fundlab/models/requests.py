"""What is sent to the service (§4), checked before it leaves and again where it arrives: bodies,
and what lists may be asked for.

What pydantic cannot say of a check in JSON Schema is stated beside it (``rules``): without it a
client generated from the sandbox's document could send bodies that fit and are refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import partial
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
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from fundlab.base.errors import InvalidRequest, shorten
from fundlab.base.values import Amount, Instant, fraction_digits
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
    NULL,
    OPTIONAL,
    TEXT,
    Schema,
    any_named,
    closed,
    one_of,
    only,
    or_null,
    positive,
    with_rules,
)
from fundlab.models.resources import (
    Address,
    FiatAccountOwner,
    FiatNetworkInstructions,
    RoutingDetails,
    RuleEnd,
)

MAX_METADATA_PAIRS: Final = 6
MAX_METADATA_LENGTH: Final = 100
MAX_WIRE_MEMO: Final = 100
MAX_CUBIX_MEMO: Final = 40
ROUTING_NUMBER: Final = re.compile("[0-9A-Za-z]+")
MODEL_NAMES: Final = {"page_size": "limit"}
"""Keywords that the interface knows under another name."""
_PRIVATE: Final = {"fiat_account_owner", "fiat_network_instructions", "metadata"}
_MASKED: Final = re.compile(r"(?:X+|•+).{0,4}", re.DOTALL)  # by a service, or as shown here

Given = TypeVar("Given", bound=BaseModel)


class Request(BaseModel):
    """A body sent to the service. ``to_json()`` leaves out what was not given."""

    model_config = ConfigDict(
        extra="ignore", frozen=True, hide_input_in_errors=True, defer_build=True
    )
    rules: ClassVar[Schema] = {}

    def to_json(self) -> dict[str, Any]:
        return self.model_dump(mode="json", exclude_none=True)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        found = handler(core_schema)
        schema = handler.resolve_ref_schema(found)
        made = with_rules(closed(schema, nulls=True), cls.rules)
        schema.clear()
        schema.update(made)
        return found


METADATA: Final[Schema] = {
    "type": "object",
    "maxProperties": MAX_METADATA_PAIRS,
    "propertyNames": {"maxLength": MAX_METADATA_LENGTH},
    "additionalProperties": {"type": "string", "maxLength": MAX_METADATA_LENGTH},
}


def _check_metadata(value: dict[str, str]) -> dict[str, str]:
    if len(value) > MAX_METADATA_PAIRS:
        raise ValueError(f"{len(value)} metadata pairs; at most {MAX_METADATA_PAIRS}")
    for key, text in value.items():
        if len(key) > MAX_METADATA_LENGTH or len(text) > MAX_METADATA_LENGTH:
            raise ValueError(
                f"metadata {key[:20]!r}: keys and values have at most "
                f"{MAX_METADATA_LENGTH} characters"
            )
    return value


def _check_positive(value: Amount) -> Amount:
    if not value:
        raise ValueError(f"amount {value.text!r} must be greater than 0")
    return value


Id = Annotated[str, StringConstraints(min_length=1, max_length=128)]
ConversionTarget = Literal["NO_CONVERSION", "USD"]
"""What stablecoins that arrive at a deposit address become."""
Metadata = Annotated[
    dict[str, str],
    AfterValidator(_check_metadata),
    Field(json_schema_extra=METADATA),
]
PositiveAmount = Annotated[Amount, AfterValidator(_check_positive)]


def _check_owner(value: FiatAccountOwner) -> FiatAccountOwner:
    if (value.institution_details is None) == (value.person_details is None):
        raise ValueError("give exactly one of institution_details and person_details")
    if not value.name:
        raise ValueError("the owner has no name")
    return value


OWNER: Final = one_of(
    institution_details=any_named("name"),
    person_details=any_named("first_name", "last_name", "name"),
)


_ADDRESS: Final = or_null(only(**dict.fromkeys(Address.model_fields, OPTIONAL)))


def changed_instructions(before: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Network instructions after an update: of the same kind, what is not ``given`` stays."""

    def changed(old: Any, new: Any) -> Any:
        if not isinstance(new, Mapping):
            return new
        kept = old if isinstance(old, Mapping) else {}
        return {**kept, **{name: changed(kept.get(name), value) for name, value in new.items()}}

    return {kind: changed(before.get(kind), details) for kind, details in given.items()}


_BANK: Final[Schema] = {"bank_name": OPTIONAL, "bank_address": _ADDRESS}
_KIND: Final[Schema] = {"enum": list(RoutingNumberType)}
ROUTING: Final = only(
    "routing_number_type",
    "routing_number",
    routing_number_type=_KIND,
    routing_number={"type": "string", "pattern": f"^{ROUTING_NUMBER.pattern}$"},
    **_BANK,
)
CHANGED_ROUTING: Final = only(
    routing_number_type=or_null(_KIND),
    routing_number={**OPTIONAL, "pattern": f"^({ROUTING_NUMBER.pattern})?$"},
    **_BANK,
)


def check_instructions(
    value: FiatNetworkInstructions, *, complete: bool = True
) -> FiatNetworkInstructions:
    """An account to pay, or without ``complete`` what an update changes of one. Raises
    ``ValueError``."""
    if value.wire is None and value.cubix is None and value.wallet_address is None:
        raise ValueError("give wire, cubix or wallet_address")
    if value.wire is not None:
        if value.cubix is not None or value.wallet_address is not None:
            raise ValueError("give either wire or a CUBIX account, not both")
        if complete and not value.wire.account_number:
            raise ValueError("wire.account_number is missing")
        for name in ("routing_details", "intermediary_routing_details"):
            routing: RoutingDetails | None = getattr(value.wire, name)
            if routing is None:
                if complete and name == "routing_details":
                    raise ValueError("wire.routing_details.routing_number is missing")
                continue
            number, kind = routing.routing_number, routing.routing_number_type
            if complete and not number:
                raise ValueError(f"wire.{name}.routing_number is missing")
            if number and ROUTING_NUMBER.fullmatch(number) is None:
                raise ValueError(f"wire.{name}.routing_number must be ASCII letters and digits")
            if (complete or kind is not None) and kind not in set(RoutingNumberType):
                raise ValueError(f"wire.{name}.routing_number_type must be ABA or SWIFT")
    elif not (value.wallet_address or (value.cubix and value.cubix.account_id)):
        raise ValueError("the CUBIX account has no id")
    return value


_CUBIX_ID: Final = {"cubix": only("account_id", account_id=TEXT)}


def _wire_or_cubix(*required: str, **wire: Schema) -> Schema:
    wire = {"fiat_account_owner_address": _ADDRESS, **wire}
    return {
        "type": "object",
        "oneOf": [
            only("wire", wire=only(*required, **wire), cubix=NULL, wallet_address=NULL),
            {
                **only(
                    wire=NULL, cubix=or_null(only(account_id=OPTIONAL)), wallet_address=OPTIONAL
                ),
                "anyOf": [
                    {"required": ["cubix"], "properties": _CUBIX_ID},
                    {"required": ["wallet_address"], "properties": {"wallet_address": TEXT}},
                ],
            },
        ],
    }


INSTRUCTIONS: Final = _wire_or_cubix(
    "account_number",
    "routing_details",
    account_number=TEXT,
    routing_details=ROUTING,
    intermediary_routing_details=or_null(ROUTING),
)
CHANGED_INSTRUCTIONS: Final = _wire_or_cubix(
    account_number=OPTIONAL,
    routing_details=or_null(CHANGED_ROUTING),
    intermediary_routing_details=or_null(CHANGED_ROUTING),
)


def _check_amounts(request: Any) -> Any:
    """One of ``amount`` and ``total``, where there are both; of a stable asset in whole cents."""
    fields = {"amount", "total"} & type(request).model_fields.keys()
    given = {name: amount for name in sorted(fields) if (amount := getattr(request, name))}
    if len(given) != 1:
        raise ValueError("give exactly one of amount and total")
    for name, amount in given.items():
        if request.asset in set(StableAsset) and fraction_digits(amount) > 2:
            raise ValueError(
                f"{name} {amount.text!r} has more than 2 decimals, too many for {request.asset}"
            )
    return request


CENTS: Final = positive(2)
GIVEN_AND_OTHER: Final = (("amount", "total"), ("total", "amount"))


Owner = Annotated[FiatAccountOwner, AfterValidator(_check_owner)]
Instructions = Annotated[FiatNetworkInstructions, AfterValidator(check_instructions)]
Changed = Annotated[
    FiatNetworkInstructions, AfterValidator(partial(check_instructions, complete=False))
]


class CreateFiatDepositInstructions(Request):
    """§4.1. ``routing_number_type`` goes with ``WIRE`` and only with it."""

    profile_id: Id
    fiat_network: FiatNetwork
    routing_number_type: RoutingNumberType | None = None
    identity_id: Id | None = None
    account_id: Id | None = None
    ref_id: Id | None = None
    metadata: Metadata | None = None

    @model_validator(mode="after")
    def _check_routing(self) -> Self:
        if (self.fiat_network is FiatNetwork.WIRE) != (self.routing_number_type is not None):
            raise ValueError("routing_number_type is needed for WIRE and omitted for CUBIX")
        return self

    _wire: ClassVar[Schema] = {
        "required": ["routing_number_type"],
        "properties": {
            "fiat_network": {"const": "WIRE"},
            "routing_number_type": {"enum": list(RoutingNumberType)},
        },
    }
    _cubix: ClassVar[Schema] = {
        "properties": {"fiat_network": {"const": "CUBIX"}, "routing_number_type": NULL}
    }
    rules: ClassVar[Schema] = {"allOf": [{"oneOf": [_wire, _cubix]}]}


class InitiateSandboxFiatDeposit(Request):
    """§4.4"""

    amount: PositiveAmount
    asset: Literal["USD"]
    memo_id: Id
    fiat_network_instructions: Instructions
    fiat_account_owner: Owner

    _amounts = model_validator(mode="after")(_check_amounts)

    rules: ClassVar[Schema] = {
        "properties": {
            "amount": CENTS,
            "fiat_network_instructions": INSTRUCTIONS,
            "fiat_account_owner": OWNER,
        }
    }


class CreateFiatAccount(Request):
    """§4.8"""

    ref_id: Id | None = None
    identity_id: Id | None = None
    account_id: Id | None = None
    fiat_account_owner: Owner
    fiat_network_instructions: Instructions
    metadata: Metadata | None = None

    rules: ClassVar[Schema] = {
        "properties": {"fiat_network_instructions": INSTRUCTIONS, "fiat_account_owner": OWNER}
    }


class UpdateFiatAccount(Request):
    """§4.10. Every field optional, and so is every one of a wire's."""

    fiat_account_owner: Owner | None = None
    fiat_network_instructions: Changed | None = None
    metadata: Metadata | None = None

    rules: ClassVar[Schema] = {
        "properties": {
            "fiat_network_instructions": or_null(CHANGED_INSTRUCTIONS),
            "fiat_account_owner": or_null(OWNER),
        }
    }


class CreateFiatWithdrawal(Request):
    """§4.12. Exactly one of ``amount`` and ``total``, which includes the fee."""

    ref_id: Id | None = None
    amount: PositiveAmount | None = None
    total: PositiveAmount | None = None
    asset: Literal["USD"]
    fiat_account_id: Id
    profile_id: Id
    identity_id: Id | None = None
    account_id: Id | None = None
    memo: Annotated[str, StringConstraints(min_length=1, max_length=MAX_WIRE_MEMO)] | None = None
    metadata: Metadata | None = None

    _amounts = model_validator(mode="after")(_check_amounts)

    rules: ClassVar[Schema] = {
        "allOf": [
            {
                "oneOf": [
                    {"required": [given], "properties": {given: CENTS, other: NULL}}
                    for given, other in GIVEN_AND_OTHER
                ]
            }
        ]
    }


class CreateDepositAddress(Request):
    """§4.13"""

    profile_id: Id
    crypto_network: CryptoNetwork
    ref_id: Id | None = None
    identity_id: Id | None = None
    account_id: Id | None = None
    conversion_target_asset: ConversionTarget | None = None
    metadata: Metadata | None = None


def _check_one_variant(value: RuleEnd) -> RuleEnd:
    given = [name for name in ("crypto", "fiat", "profile") if getattr(value, name) is not None]
    if len(given) != 1:
        raise ValueError("give exactly one of crypto, fiat and profile")
    return value


class CreateOrchestrationRule(Request):
    """§2.6, §4.14. Source and destination assets differ."""

    ref_id: Id
    profile_id: Id
    source_asset: StableAsset
    destination_asset: StableAsset
    source: Annotated[RuleEnd, AfterValidator(_check_one_variant)]
    nickname: Annotated[str, StringConstraints(max_length=200)] | None = None
    identity_id: Id | None = None
    account_id: Id | None = None
    destination: Annotated[RuleEnd, AfterValidator(_check_one_variant)] | None = None

    @model_validator(mode="after")
    def _check_assets(self) -> Self:
        if self.source_asset is self.destination_asset:
            raise ValueError(f"source_asset and destination_asset are both {self.source_asset}")
        return self

    rules: ClassVar[Schema] = {
        "allOf": [
            {
                "oneOf": [
                    {
                        "properties": {
                            "source_asset": {"const": asset.value},
                            "destination_asset": {"enum": [a for a in StableAsset if a != asset]},
                        }
                    }
                    for asset in StableAsset
                ]
            }
        ]
    }


class CreateCryptoWithdrawalFee(Request):
    """§4.16. Exactly one of ``amount`` and ``total``."""

    asset: Id
    destination_address: Annotated[str, StringConstraints(min_length=1, max_length=256)]
    crypto_network: CryptoNetwork
    amount: PositiveAmount | None = None
    total: PositiveAmount | None = None
    identity_id: Id | None = None

    _amounts = model_validator(mode="after")(_check_amounts)


# --------------------------------------------------------------- from keywords to what is sent


def checked(model: type[Given], operation: str, values: Mapping[str, Any]) -> Given:
    """``values`` (keywords of an operation, those that are not ``None``) as ``model``.

    Raises ``InvalidRequest`` naming what is wrong; it repeats nothing of bank details and metadata.
    """
    keywords = {MODEL_NAMES.get(name, name): name for name in values}
    given = {
        name: values[keyword] for name, keyword in keywords.items() if values[keyword] is not None
    }
    problems = []
    try:
        return model.model_validate(given)
    except ValidationError as error:
        for item in error.errors(include_url=False):
            problem, location, value = sentence(item), item["loc"], item["input"]
            if location:
                showable = location[0] not in _PRIVATE and isinstance(value, str | int | float)
                if showable and repr(value) not in problem:
                    problem += f" ({shorten(value)} given)"
                path = field_path(location)
                problem = f"{keywords.get(path, path)}: {problem}"
            problems.append(problem)
    raise InvalidRequest(f"{operation}: {'; '.join(dict.fromkeys(problems))}; nothing was sent")


def unknown_members(
    model: type[BaseModel], given: Mapping[str, Any], within: str = ""
) -> Iterator[tuple[str, type[BaseModel]]]:
    """The members of ``given``, at every depth, that its model does not have: path and model."""
    for name, value in given.items():
        field = model.model_fields.get(name)
        if field is None:
            yield f"{within}{name}", model
        elif isinstance(value, Mapping):
            kinds: list[Any] = [field.annotation]
            for kind in kinds:
                kinds += get_args(kind)
                if isinstance(kind, type) and issubclass(kind, BaseModel):
                    yield from unknown_members(kind, value, f"{within}{name}.")


def body_bytes(request: Request, operation: str) -> bytes:
    """The JSON of ``request``: compact, UTF-8, the bytes that are signed and sent.

    Raises ``InvalidRequest`` for a request without members, and for an account number as lists and
    reprs show it: sent back, the mask would replace the number.
    """
    instructions = getattr(request, "fiat_network_instructions", None)
    for name, number in (("wire", "account_number"), ("cubix", "account_id")):
        text = getattr(getattr(instructions, name, None), number, None)
        if _MASKED.fullmatch(text or ""):
            raise InvalidRequest(
                f"{operation}: fiat_network_instructions.{name}.{number} is masked, as it is "
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


def sentence(error: Mapping[str, Any]) -> str:
    """What one of pydantic's errors says."""
    if error["type"] == "missing":
        return "is missing"
    return str(error["msg"]).removeprefix("Value error, ")


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


def _whole_number(value: object) -> object:
    if isinstance(value, str) and _DIGITS.fullmatch(value) is None:
        raise ValueError(f"{value[:40]!a} is not a whole number")
    return value


def _true_or_false(value: object) -> object:
    if isinstance(value, str) and value not in ("true", "false"):
        raise ValueError(f"{value[:40]!a} is neither true nor false")
    return value


def _at(name: str) -> Any:
    """The field of a time that rows are compared with, such as ``created_at.gte``."""
    field, _, comparison = name.partition(".")
    note = f"Only rows whose {field} is {_COMPARED[comparison]} this RFC 3339 time."
    return Field(None, alias=name, description=note, json_schema_extra={"pattern": TIME_PATTERN})


T = TypeVar("T")
Filter = Annotated[list[T], Field(max_length=MAX_FILTER_ENTRIES)]
"""At most 100 entries, sent by repeating the key."""
Number = Annotated[int, BeforeValidator(_whole_number)]
Flag = Annotated[bool, BeforeValidator(_true_or_false)]
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

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, defer_build=True)

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
