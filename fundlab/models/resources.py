"""What the service answers with (§§2–3), pages of it, tokens (§5) and problems (§7): their base,
the parts of §2.1 that several share, then each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import cache
from typing import Annotated, Any, ClassVar, Final, NamedTuple, Self, get_args

from pydantic import (
    VERSION,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    StringConstraints,
    TypeAdapter,
    ValidationError,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from fundlab.base.values import Amount, Instant, money_text, unless_unset
from fundlab.models.enumerations import (
    CryptoNetwork,
    DepositInstructionsStatus,
    Direction,
    FiatAccountStatus,
    FiatNetwork,
    Open,
    RoutingNumberType,
    StableAsset,
    TransferStatus,
    TransferType,
)
from fundlab.models.json_schema import closed
from fundlab.settings.secret import mask_number, without_numbers

__all__ = [
    "Address", "CryptoDestinationAddress", "CryptoDestinationAddressPage", "CryptoEnd",
    "CryptoWithdrawalFee", "CubixInstructions", "DepositAddress", "Event", "EventPage",
    "FiatAccount", "FiatAccountOwner", "FiatAccountPage", "FiatDepositInstructions",
    "FiatDepositInstructionsPage", "FiatEnd", "FiatNetworkInstructions", "InstitutionDetails",
    "OrchestrationRule", "OrchestrationRuleAnswer", "PersonDetails", "Problem", "ProfileBalance",
    "ProfileEnd", "Resource", "RoutingDetails", "RuleEnd", "Token", "Transfer", "TransferPage",
    "WireInstructions",
]  # fmt: skip

MAKES_ONCE: Final = tuple(map(int, VERSION.split(".")[:2])) >= (2, 14)
"""Whether pydantic makes a model once, however many threads ask for it first: then each is made
when it is first used, else all at import."""


Moment = Annotated[Instant | None, BeforeValidator(unless_unset)]


class Resource(BaseModel):
    """Something the service answers with. Immutable; unknown fields are kept as attributes.

    Shown with account numbers masked; the attributes and ``to_json()`` have them in full.
    """

    model_config = ConfigDict(
        extra="allow", frozen=True, hide_input_in_errors=True, defer_build=MAKES_ONCE
    )
    _place: ClassVar[str] = ""  # the path by which ``without_numbers`` knows its members
    listed: ClassVar[tuple[str, ...]] = ()
    """The fields whose values are enumerated, or that hold resources with such fields."""

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        listed = []
        for name, field in cls.model_fields.items():
            kinds: list[Any] = [field.annotation]
            for kind in kinds:
                kinds += get_args(kind)  # alternatives, and what a list holds
                if isinstance(kind, type) and (
                    issubclass(kind, StrEnum) or (issubclass(kind, Resource) and kind.listed)
                ):
                    listed.append(name)
                    break
        cls.listed = tuple(listed)

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        for name, value in super().__repr_args__():
            yield name, without_numbers(value, f"{self._place}.{name}")

    def _repr_html_(self) -> str:
        from fundlab.display import Card, Row  # which loads pandas

        rows: list[Row] = []

        def add(members: Mapping[Any, Any], depth: int = 0) -> None:
            """A row for each value there is, however deep it is; what is masked stays masked."""
            for name, value in members.items():
                label = str(name)
                if isinstance(value, Resource):
                    value = dict(value.__repr_args__())
                if isinstance(value, Mapping):
                    rows.extend([Row(label, "", depth=depth)] * bool(value))
                    add(value, depth + 1)
                elif isinstance(value, Amount):
                    own = members.get("balance_asset") if name == "total" else None
                    unit = own or members.get("asset")
                    text = f"{money_text(value)} {unit or ''}".rstrip()
                    rows.append(Row(label, text, money=True, depth=depth))
                elif isinstance(value, list | tuple) and all(isinstance(x, str) for x in value):
                    rows.append(Row(label, ", ".join(map(str, value)), depth=depth))
                elif value is not None:
                    rows.append(Row(label, str(value), depth=depth))

        add(dict(self.__repr_args__()))
        return Card(type(self).__name__, tuple(rows))._repr_html_()

    def to_json(self) -> dict[str, Any]:
        """What was read, unchanged: the same members, absent ones absent, texts to the letter."""
        return self.model_dump(mode="json", exclude_unset=True)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Stricter than reading: no unknown members, only listed values, no ``null`` in answers."""
        reference = handler(core_schema)
        schema = handler.resolve_ref_schema(reference)
        made = closed(schema)
        schema.clear()
        schema.update(made)
        return reference


def required(*fields: str) -> ConfigDict:
    """Fields the interface requires in an answer: documented, though reading does without."""
    return ConfigDict(json_schema_extra={"required": list(fields)})


RowId = Annotated[str, StringConstraints(min_length=1)]


class Address(Resource):
    """§2.1"""

    country: str | None = None
    address1: str | None = None
    address2: str | None = None
    city: str | None = None
    province: str | None = None
    zip_code: str | None = None


class RoutingDetails(Resource):
    """§2.1"""

    routing_number_type: Open[RoutingNumberType] | None = None
    routing_number: str | None = None
    bank_name: str | None = None
    bank_address: Address | None = None


class WireInstructions(Resource):
    """§2.1. ``account_number`` may arrive masked with ``X``."""

    account_number: str | None = None
    fiat_account_owner_address: Address | None = None
    routing_details: RoutingDetails | None = None
    intermediary_routing_details: RoutingDetails | None = None


class CubixInstructions(Resource):
    """The account at the CUBIX bank, in the layout the live service returns."""

    _place: ClassVar[str] = ".cubix"

    account_id: str | None = None


class InstitutionDetails(Resource):
    """§2.1"""

    name: str | None = None


class PersonDetails(Resource):
    """§2.1"""

    first_name: str | None = None
    last_name: str | None = None
    name: str | None = None


class FiatAccountOwner(Resource):
    """§2.1. One of the two; live answers carry the other as ``null``."""

    institution_details: InstitutionDetails | None = None
    person_details: PersonDetails | None = None

    @property
    def name(self) -> str | None:
        """The owner's name, whichever variant holds it."""
        if self.institution_details is not None:
            return self.institution_details.name
        person = self.person_details
        if person is None:
            return None
        parts = [part for part in (person.first_name, person.last_name) if part]
        return " ".join(parts) or person.name


class FiatNetworkInstructions(Resource):
    """§2.1. ``wire``, or one of the two layouts of a CUBIX account."""

    wire: WireInstructions | None = None
    cubix: CubixInstructions | None = None
    wallet_address: str | None = None


class BankSummary(NamedTuple):
    """What a person knows a bank account by, whoever shows it: the number masked, and an empty text
    for what is not there."""

    owner: str
    number: str
    bank: str
    network: str


class WithInstructions(Resource):
    """Live answers nest ``status``, ``metadata`` and the instructions in unexpected places."""

    @model_validator(mode="after")
    def _lift_nested(self) -> Self:
        # Written past pydantic so that to_json() still gives back what was read.
        lifted = self.__dict__
        owner = lifted.get("fiat_account_owner")
        if lifted.get("fiat_network_instructions") is None and owner is not None:
            nested = (owner.model_extra or {}).get("fiat_network_instructions")
            if isinstance(nested, Mapping):
                lifted["fiat_network_instructions"] = FiatNetworkInstructions.model_validate(nested)
        instructions = lifted.get("fiat_network_instructions")
        if instructions is not None:
            for name, value in (instructions.model_extra or {}).items():
                if name in type(self).model_fields and lifted.get(name) is None:
                    try:
                        lifted[name] = _reader(type(self), name).validate_python(value)
                    except ValidationError:  # as it was read
                        lifted[name] = value
        return self


@cache
def _reader(kind: type[Resource], name: str) -> TypeAdapter[Any]:
    return TypeAdapter(kind.model_fields[name].rebuild_annotation())


class FiatDepositInstructions(WithInstructions):
    """§2.2"""

    model_config = required(
        "id", "profile_id", "status", "memo_id", "fiat_network_instructions", "created_at"
    )

    id: RowId
    profile_id: str | None = None
    identity_id: str | None = None
    account_id: str | None = None
    customer_id: str | None = None
    ref_id: str | None = None
    status: Open[DepositInstructionsStatus] | None = None
    memo_id: str | None = None
    fiat_network_instructions: FiatNetworkInstructions | None = None
    fiat_account_owner: FiatAccountOwner | None = None
    metadata: dict[str, Any] | None = None
    created_at: Moment = None


class FiatAccount(WithInstructions):
    """§2.3"""

    model_config = required("id", "fiat_network_instructions", "status", "created_at")

    id: RowId
    ref_id: str | None = None
    identity_id: str | None = None
    account_id: str | None = None
    fiat_account_owner: FiatAccountOwner | None = None
    fiat_network_instructions: FiatNetworkInstructions | None = None
    status: Open[FiatAccountStatus] | None = None
    metadata: dict[str, Any] | None = None
    created_at: Moment = None
    updated_at: Moment = None

    @property
    def summary(self) -> BankSummary:
        """Its owner, its bank, the last four characters of its number, and its network."""
        owner = (self.fiat_account_owner and self.fiat_account_owner.name) or ""
        instructions = self.fiat_network_instructions or FiatNetworkInstructions()
        wire, cubix = instructions.wire, instructions.cubix
        if wire is not None:
            number = wire.account_number
            if number is None:
                number = (wire.model_extra or {}).get("iban")
            bank = (wire.routing_details and wire.routing_details.bank_name) or ""
            return BankSummary(owner, mask_number(number), bank, "wire")
        number = cubix.account_id if cubix is not None else instructions.wallet_address
        network = "CUBIX" if number is not None else ""
        return BankSummary(owner, mask_number(number), network, network.lower())


class Transfer(Resource):
    """§2.4. ``total`` is the unsigned change of the balance of ``balance_asset`` or ``asset``."""

    model_config = required(
        "id", "customer_id", "profile_id", "amount", "fee", "total", "asset", "direction", "type",
        "status", "created_at", "updated_at",
    )  # fmt: skip

    id: RowId
    ref_id: str | None = None
    customer_id: str | None = None
    profile_id: str | None = None
    identity_id: str | None = None
    account_id: str | None = None
    amount: Amount | None = None
    fee: Amount | None = None
    total: Amount | None = None
    asset: str | None = None
    balance_asset: str | None = None
    direction: Open[Direction] | None = None
    type: Open[TransferType] | None = None
    status: Open[TransferStatus] | None = None
    secondary_status: dict[str, Any] | None = None
    status_details: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    created_at: Moment = None
    updated_at: Moment = None
    auto_conversion: dict[str, Any] | None = None
    group_id: str | None = None
    fiat_account_id: str | None = None
    memo: str | None = None
    crypto_network: Open[CryptoNetwork] | None = None
    crypto_tx_hash: str | None = None
    crypto_tx_index: str | None = None
    destination_address: str | None = None
    notional_value: Amount | None = None


class ProfileBalance(Resource):
    """§2.5"""

    model_config = required("asset", "available", "trading")

    asset: str
    available: Amount
    trading: Amount


class CryptoEnd(Resource):
    """§2.6. ``address_id`` on sources only."""

    address_id: str | None = None
    address: str | None = None
    network: Open[CryptoNetwork] | None = None


class FiatEnd(Resource):
    """§2.6. The first four belong to sources, the last two to destinations."""

    deposit_instructions_id: str | None = None
    network: Open[FiatNetwork] | None = None
    account_type: Open[RoutingNumberType] | None = None
    memo_id: str | None = None
    fiat_account_id: str | None = None
    memo: str | None = None


class ProfileEnd(Resource):
    """§2.6"""

    profile_id: str | None = None


class RuleEnd(Resource):
    """Source or destination of an orchestration rule: one of three variants (§2.6)."""

    crypto: CryptoEnd | None = None
    fiat: FiatEnd | None = None
    profile: ProfileEnd | None = None


class OrchestrationRule(Resource):
    """§2.6"""

    model_config = required(
        "id", "ref_id", "profile_id", "source_asset", "destination_asset", "source", "created_at"
    )

    id: RowId
    ref_id: str | None = None
    nickname: str | None = None
    profile_id: str | None = None
    identity_id: str | None = None
    account_id: str | None = None
    source_asset: Open[StableAsset] | None = None
    destination_asset: Open[StableAsset] | None = None
    source: RuleEnd | None = None
    destination: RuleEnd | None = None
    status: str | None = None
    created_at: Moment = None


class OrchestrationRuleAnswer(Resource):
    """§4.14"""

    rule: OrchestrationRule


class CryptoDestinationAddress(Resource):
    """§2.8"""

    model_config = required("id", "crypto_network", "address", "status", "created_at", "bookmarked")

    id: RowId
    crypto_network: Open[CryptoNetwork] | None = None
    address: str | None = None
    nickname: str | None = None
    status: str | None = None
    created_at: Moment = None
    bookmarked: bool | None = Field(None, strict=True)
    identity_id: str | None = None


class CryptoWithdrawalFee(Resource):
    """§2.9"""

    model_config = required(
        "id", "fee", "asset", "expires_at", "destination_address", "crypto_network"
    )

    id: RowId
    fee: Amount
    asset: str | None = None
    amount: Amount | None = None
    total: Amount | None = None
    expires_at: Moment = None
    destination_address: str | None = None
    crypto_network: Open[CryptoNetwork] | None = None


class DepositAddress(Resource):
    """§4.13, in the layout the live service returns."""

    model_config = required("id", "profile_id", "crypto_network", "address", "created_at")

    id: RowId
    profile_id: str | None = None
    customer_id: str | None = None
    ref_id: str | None = None
    identity_id: str | None = None
    account_id: str | None = None
    crypto_network: Open[CryptoNetwork] | None = None
    address: str | None = None
    conversion_target_asset: str | None = None
    compatible_crypto_networks: list[Open[CryptoNetwork]] | None = None
    metadata: dict[str, Any] | None = None
    created_at: Moment = None


class Event(Resource):
    """§2.10"""

    model_config = required("id", "type", "object_type", "object", "created_at")

    id: RowId
    type: str | None = None
    object_type: str | None = None
    object: dict[str, Any] | None = None
    created_at: Moment = None
    undelivered_webhooks: int | None = Field(None, strict=True)
    is_test: bool | None = Field(None, strict=True)


def rows_of(value: object) -> object:
    """The array of a list may be null where there are no rows."""
    return [] if value is None else value


class ListPage(Resource):
    """One page of a list; without rows its array may be absent. Any other object is no page."""

    @model_validator(mode="after")
    def _is_a_page(self) -> Self:
        rows = {*type(self).model_fields} - {"next_page_cursor"}
        others = self.model_fields_set - {"next_page_cursor", "next_page"}
        if others and not rows & others:  # the members of ``model_extra`` are among those set
            raise ValueError(f"has no array {min(rows)!r}")
        return self


class TransferPage(ListPage):
    """§4.5"""

    model_config = required("items")

    items: Annotated[list[Transfer], BeforeValidator(rows_of)] = []
    next_page_cursor: str | None = None


class FiatAccountPage(ListPage):
    """§4.11"""

    model_config = required("items")

    items: Annotated[list[FiatAccount], BeforeValidator(rows_of)] = []
    next_page_cursor: str | None = None


class FiatDepositInstructionsPage(ListPage):
    """§4.3"""

    model_config = required("items")

    items: Annotated[list[FiatDepositInstructions], BeforeValidator(rows_of)] = []
    next_page_cursor: str | None = None


class CryptoDestinationAddressPage(ListPage):
    """§4.15"""

    model_config = required("addresses")

    addresses: Annotated[list[CryptoDestinationAddress], BeforeValidator(rows_of)] = []
    next_page_cursor: str | None = None


class EventPage(ListPage):
    """§6"""

    model_config = required("events")

    events: Annotated[list[Event], BeforeValidator(rows_of)] = []
    next_page_cursor: str | None = None


class Token(Resource):
    """§5.1"""

    access_token: str = Field(repr=False)
    expires_in: int
    scope: str = ""
    token_type: str = "bearer"


class Problem(Resource):
    """RFC 9457, the body of every error (§7)."""

    type: str = "about:blank"
    title: str | None = None
    status: int | None = None
    detail: str | None = None
    meta: dict[str, Any] | None = None


MEANINGS: Final[Mapping[str, str]] = {
    "account_id": "account of an end user, in third-party integrations",
    "address": "the address on the network",
    "amount": "amount sent, in `asset`",
    "asset": "asset of the row",
    "auto_conversion": "the conversion the transfer took part in, as JSON",
    "available": "what can be spent",
    "balance_asset": "asset whose balance changed, where a conversion makes it another",
    "bookmarked": "whether the address is bookmarked",
    "created_at": "when the service created the record",
    "crypto_network": "network of a crypto transfer or address",
    "crypto_tx_hash": "hash on the network",
    "crypto_tx_index": "index or address of the output",
    "customer_id": "the customer",
    "destination_address": "where a crypto withdrawal went",
    "direction": "whether the balance was credited or debited",
    "extra": "members the interface does not list, as JSON",
    "fee": "fee, in `asset`",
    "fiat_account_id": "target of a fiat withdrawal",
    "fiat_account_owner": "the institution or person, as JSON",
    "fiat_network_instructions": "banking details, as JSON",
    "group_id": "what links the two halves of an internal transfer",
    "id": "the key",
    "identity_id": "the end user",
    "is_test": "whether it is a test event",
    "memo": "memo sent with the transfer",
    "memo_id": "what a deposit must quote",
    "metadata": "client's own keys and values, as JSON",
    "nickname": "name given to the address",
    "notional_value": "USD value of amount plus fee, for crypto transfers",
    "object": "payload of the event, as JSON",
    "object_type": "what kind of payload it is",
    "observed_at": "when the balance was read, by this machine's clock",
    "profile_id": "profile whose balance it is",
    "ref_id": "client's own idempotence id",
    "secondary_status": "finer explanation of the status, as JSON",
    "status": "state",
    "status_details": "more on some errors, as JSON",
    "total": "change of the balance without its sign: amount ∓ fee",
    "trading": "what is held for trading",
    "type": "kind",
    "undelivered_webhooks": "webhooks that did not arrive",
    "updated_at": "when the service last changed the record",
}
"""What each column of a table holds: the members of its resource, and what is kept beside them."""
