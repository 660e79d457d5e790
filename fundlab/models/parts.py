"""What answers are made of: their base, and the parts of §2.1 that several resources share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, ClassVar, Self, get_args

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from fundlab.models.enumerations import Open, RoutingNumberType
from fundlab.models.json_schema import closed
from fundlab.secret import without_numbers


class Resource(BaseModel):
    """Something the service answers with. Immutable; unknown fields are kept as attributes.

    Shown with account numbers masked; the attributes and ``to_json()`` have them in full.
    """

    model_config = ConfigDict(extra="allow", frozen=True, hide_input_in_errors=True)
    _place: ClassVar[str] = ""  # the path by which ``without_numbers`` knows its members
    listed: ClassVar[tuple[str, ...]] = ()
    """The fields whose values are enumerated, or that hold resources with such fields."""

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        found = []
        for name, field in cls.model_fields.items():
            kinds: list[Any] = [field.annotation]
            for kind in kinds:
                kinds += get_args(kind)  # alternatives, and what a list holds
                if isinstance(kind, type) and (
                    issubclass(kind, StrEnum) or (issubclass(kind, Resource) and kind.listed)
                ):
                    found.append(name)
                    break
        cls.listed = tuple(found)

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        for name, value in super().__repr_args__():
            yield name, without_numbers(value, f"{self._place}.{name}")

    def to_json(self) -> dict[str, Any]:
        """What was read, unchanged: the same members, absent ones absent, texts to the letter."""
        return self.model_dump(mode="json", exclude_unset=True)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Stricter than reading: no unknown members, only listed values, no ``null`` in answers."""
        found = handler(core_schema)
        schema = handler.resolve_ref_schema(found)
        made = closed(schema, nulls=handler.mode == "validation")
        schema.clear()
        schema.update(made)
        return found


def required(*fields: str) -> ConfigDict:
    """Fields the interface requires in an answer: documented, though reading does without."""
    return ConfigDict(json_schema_extra={"required": list(fields)})


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
                    lifted[name] = (
                        FiatAccountOwner.model_validate(value)
                        if name == "fiat_account_owner"
                        else value
                    )
        return self
