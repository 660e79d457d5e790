"""When what a ``ref_id`` made before is what is asked for now."""

from __future__ import annotations

import unicodedata
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fundlab.client.calls import encoded_target
from fundlab.client.identity import differences, is_this_payment

ROUTING = {"routing_number_type": "ABA", "routing_number": "021000021"}
WIRE = {"wire": {"account_number": "000123456789", "routing_details": ROUTING}}
OWNER = {"person_details": {"first_name": "Ada", "last_name": "Byron"}}
ACCOUNT = {"ref_id": "r", "fiat_account_owner": OWNER, "fiat_network_instructions": WIRE}


def wire(number: str, **routing: str) -> dict[str, Any]:
    return {"wire": {"account_number": number, "routing_details": ROUTING | routing}}


@pytest.mark.parametrize(
    ("asked", "existing"),
    [
        (ACCOUNT, ACCOUNT | {"id": "f", "status": "APPROVED"}),
        (ACCOUNT, ACCOUNT | {"fiat_account_owner": None}),
        (ACCOUNT, ACCOUNT | {"fiat_account_owner": OWNER | {"institution_details": None}}),
        (ACCOUNT, ACCOUNT | {"fiat_network_instructions": wire("XXXXXXXX6789")}),
        (ACCOUNT, ACCOUNT | {"fiat_network_instructions": wire("X6789", bank_name="B")}),
        ({"fiat_network_instructions": {"wallet_address": "cx"}},
         {"fiat_network_instructions": {"cubix": {"account_id": "cx"}}}),
        ({"metadata": {"a": "7", "b": "true"}}, {"metadata": {"a": 7, "b": True}}),
        ({"metadata": {}}, {"metadata": None}),
        ({"ref_id": "r", "amount": "1", "metadata": {"a": "7"}, "source": {"fiat": {}}}, {}),
        ({"profile_id": "8D0F", "account_id": "a"}, {"profile_id": "8d0f", "account_id": "A"}),
        ({"source": {"profile": {"profile_id": "AB"}}},
         {"source": {"profile": {"profile_id": "ab"}}}),
        ({"amount": "100.00"}, {"amount": "100"}),
        ({"total": ".50"}, {"total": "0.5000"}),
        ({"fiat_network": "WIRE", "routing_number_type": "ABA"},
         {"fiat_network_instructions": WIRE}),
        ({"fiat_network": "CUBIX"}, {"fiat_network_instructions": {"cubix": {"account_id": "c"}}}),
        ({"fiat_network": "CUBIX"}, {"identity_id": "the customer's own"}),
        ({"ref_id": "r"}, {"ref_id": "r", "metadata": {}, "identity_id": None, "account_id": ""}),
        ({"source": {"profile": {"profile_id": "p"}}},
         {"source": {"profile": {"profile_id": "p", "nickname": "main"}, "crypto": None}}),
        ({"ref_id": "r"}, {"ref_id": "r", "conversion_target_asset": "NO_CONVERSION"}),
        *(({name: value}, {name: value, "conversion_target_asset": "NO_CONVERSION"})
          for name, value in (("metadata", {"a": "b"}), ("identity_id", "i"), ("account_id", "a"))),
    ],
)  # fmt: skip
def test_the_same(asked: dict[str, Any], existing: dict[str, Any]) -> None:
    assert differences(asked, existing) == []


@pytest.mark.parametrize(
    ("asked", "existing", "difference"),
    [
        (ACCOUNT, ACCOUNT | {"fiat_network_instructions": wire("XXXXXXXX6780")},
         "fiat_network_instructions differs"),
        (ACCOUNT, ACCOUNT | {"fiat_network_instructions": wire("000123456780")},
         "fiat_network_instructions differs"),
        (ACCOUNT, ACCOUNT | {"fiat_network_instructions": wire("6789")},
         "fiat_network_instructions differs"),
        (ACCOUNT, ACCOUNT | {"fiat_network_instructions": {"cubix": {"account_id": "c"}}},
         "fiat_network_instructions differs"),
        (ACCOUNT, ACCOUNT | {"fiat_account_owner": {"person_details": {"first_name": "Eve"}}},
         "fiat_account_owner differs"),
        (ACCOUNT, ACCOUNT | {"fiat_account_owner": {"institution_details": {"name": "Ada"}}},
         "fiat_account_owner differs"),
        ({"metadata": {"a": "7"}}, {"metadata": {"a": 8}}, "metadata is {'a': 8}, not {'a': '7'}"),
        ({"amount": "100.00"}, {"amount": "100.001"}, "amount is '100.001', not '100.00'"),
        ({"amount": "100.00"}, {"amount": "a lot"}, "amount is 'a lot', not '100.00'"),
        ({"fiat_network": "WIRE"}, {"fiat_network_instructions": {"cubix": {}}},
         "fiat_network is 'CUBIX', not 'WIRE'"),
        ({"routing_number_type": "SWIFT"}, {"fiat_network_instructions": WIRE},
         "routing_number_type is 'ABA', not 'SWIFT'"),
        ({"ref_id": "r"}, {"ref_id": "r", "metadata": {"a": "7"}},
         "metadata is {'a': '7'}, not left out"),
        ({"ref_id": "r"}, {"ref_id": "r", "identity_id": "i"}, "identity_id is 'i', not left out"),
        ({"ref_id": "r"}, {"ref_id": "r", "account_id": "a"}, "account_id is 'a', not left out"),
        ({"ref_id": "r"}, {"ref_id": "r", "memo": "m"}, "memo is 'm', not left out"),
        ({"memo": "n"}, {"memo": "m"}, "memo is 'm', not 'n'"),
        (ACCOUNT, ACCOUNT | {"fiat_account_owner": {"person_details": {"first_name": "ADA"}}},
         "fiat_account_owner differs"),
        ({"ref_id": "r"}, {"ref_id": "r", "destination": {"profile": {"profile_id": "q"}}},
         "destination is {'profile': {'profile_id': 'q'}}, not left out"),
        ({"ref_id": "r"}, {"ref_id": "r", "conversion_target_asset": "USD"},
         "conversion_target_asset is 'USD', not left out"),
        ({"conversion_target_asset": "USD"}, {"conversion_target_asset": "NO_CONVERSION"},
         "conversion_target_asset is 'NO_CONVERSION', not 'USD'"),
        ({"source": {"profile": {"profile_id": "p"}}}, {"source": {"crypto": {"address": "x"}}},
         "source is {'crypto'"),
    ],
)  # fmt: skip
def test_another(asked: dict[str, Any], existing: dict[str, Any], difference: str) -> None:
    found = differences(asked, existing)
    assert len(found) == 1
    assert found[0].startswith(difference)
    assert "Ada" not in found[0]
    assert "6789" not in found[0]


@pytest.mark.parametrize(
    ("asked", "found", "given", "many"),
    [
        ({"ref_id": ""}, {}, {"complete": True}, 0),  # an empty text is as good as absent
        ({"ref_id": "r"}, {}, {"complete": True}, 1),
        ({"profile_id": "p"}, {}, {}, 0),
        ({"source": {"profile": {"profile_id": ""}}}, {"source": {"profile": {}}},
         {"complete": True}, 0),
        ({"source": {"profile": {"profile_id": "p"}}}, {"source": {"profile": {}}},
         {"complete": True}, 1),
        ({"source": {"profile": {"profile_id": "p"}}}, {"source": {"profile": {}}}, {}, 0),
        ({"source": {"profile": {"number": 1}}}, {"source": {"profile": {"number": 1}}}, {}, 0),
        ({"source": {"profile": {"number": 1}}}, {"source": {"profile": {"number": 2}}}, {}, 1),
        ({"source": {"profile": {"number": "1"}}}, {"source": {"profile": {"number": 1}}}, {}, 1),
        ({"source": {"profile": {"of": {"id": "p"}}}}, {"source": {"profile": {"of": "p"}}}, {}, 1),
        ({"source": {"profile": {}}}, {}, {"complete": True}, 1),
        ({"fiat_account_owner": OWNER}, {}, {"complete": True}, 0),  # lists leave it out
        ({"fiat_account_owner": OWNER}, {"fiat_account_owner": "Ada Byron"}, {}, 1),
        ({"fiat_network_instructions": {"wallet_address": "cx", "asset": "USDC"}},
         {"fiat_network_instructions": {"cubix": {"account_id": "cx"}, "asset": "USDT"}}, {}, 1),
    ],
)  # fmt: skip
def test_what_is_not_shown_or_of_another_kind(
    asked: dict[str, Any], found: dict[str, Any], given: dict[str, Any], many: int
) -> None:
    assert len(differences(asked, found, **given)) == many


PAYMENT = {"ref_id": "r", "profile_id": "p", "fiat_account_id": "f", "amount": "100.00",
           "asset": "USD"}  # fmt: skip
MADE = PAYMENT | {"type": "WIRE_WITHDRAWAL", "direction": "DEBIT", "amount": "100"}
OF_TOTAL = {name: value for name, value in PAYMENT.items() if name != "amount"} | {"total": "125"}
RULE = {"ref_id": "r", "profile_id": "p", "source_asset": "USDC", "destination_asset": "USD",
        "source": {"profile": {"profile_id": "p"}}}  # fmt: skip
TO_Q = {"destination": {"profile": {"profile_id": "q"}}}
ADDRESS = {"ref_id": "r", "profile_id": "p", "crypto_network": "BASE"}


@pytest.mark.parametrize(
    ("asked", "found", "given", "answer", "why"),
    [
        (PAYMENT, MADE, {}, "yes", ()),
        (PAYMENT, MADE | {"type": "CUBIX_WITHDRAWAL"}, {}, "yes", ()),
        *((PAYMENT, MADE | {name: None}, {}, "unknown", (name,)) for name in MADE),
        (PAYMENT, MADE | {"ref_id": None}, {"named": True}, "yes", ()),
        (PAYMENT, MADE | {"ref_id": None, "asset": None}, {"named": True}, "unknown", ("asset",)),
        (PAYMENT, MADE | {"type": "NEW_WITHDRAWAL"}, {}, "unknown", ("type",)),
        (PAYMENT, MADE | {"type": "WIRE_DEPOSIT", "profile_id": "q"}, {}, "no",
         ("type is WIRE_DEPOSIT", "profile_id is 'q', not 'p'")),
        (PAYMENT, MADE | {"direction": "CREDIT", "asset": "USDC"}, {}, "no",
         ("direction is CREDIT", "asset is 'USDC', not 'USD'")),
        (PAYMENT, MADE | {"amount": "100.01", "asset": None}, {}, "no",
         ("amount is '100.01', not '100.00'",)),
        (PAYMENT, MADE | {"memo": "rent"}, {}, "no", ("memo is 'rent', not left out",)),
        (PAYMENT, MADE | {"memo": "rent"}, {"ours": True}, "yes", ()),
        (PAYMENT | {"metadata": {"a": "1"}}, MADE | {"metadata": {"a": "2"}}, {"ours": True},
         "yes", ()),
        (PAYMENT, MADE | {"ref_id": "other"}, {"without": ["ref_id"]}, "yes", ()),
        (PAYMENT, MADE | {"amount": "7"}, {"without": ["amount"]}, "yes", ()),
        (OF_TOTAL, MADE | {"amount": None, "total": "125.00"}, {}, "yes", ()),
        (OF_TOTAL, MADE, {}, "unknown", ("total",)),
        (RULE, RULE, {"operation": "create_orchestration_rule"}, "yes", ()),
        (RULE, RULE | {"source": None}, {"operation": "create_orchestration_rule"}, "unknown",
         ("source",)),
        (RULE | TO_Q, RULE, {"operation": "create_orchestration_rule"}, "unknown",
         ("destination",)),
        (RULE | TO_Q, RULE | TO_Q, {"operation": "create_orchestration_rule"}, "yes", ()),
        (ADDRESS | {"conversion_target_asset": "USD"}, ADDRESS,
         {"operation": "create_deposit_address"}, "unknown", ("conversion_target_asset",)),
        (ADDRESS | {"conversion_target_asset": "NO_CONVERSION"}, ADDRESS,
         {"operation": "create_deposit_address"}, "yes", ()),
    ],
)  # fmt: skip
def test_whether_it_is_this_payment(
    asked: dict[str, Any], found: dict[str, Any], given: dict[str, Any], answer: str,
    why: tuple[str, ...],
) -> None:  # fmt: skip
    identity = is_this_payment(asked, found, **given)
    assert identity.answer == answer
    assert (identity.contradictions if answer == "no" else identity.absent) == why


def test_what_is_complete_lacks_what_it_does_not_show() -> None:
    asked = {"metadata": {"a": "7"}}
    assert differences(asked, {}, complete=True) == ["metadata is None, not {'a': '7'}"]


MADE = {"ref_id": "r", "amount": "1.00", "asset": "USD", "profile_id": "p", "memo": "m"}


@pytest.mark.parametrize("made", [MADE, {}, MADE | {"amount": "01.0", "fee": "9"}])
def test_no_contradiction(made: dict[str, Any]) -> None:
    assert differences(MADE | {"metadata": {"a": "b"}}, made, ours=True) == []


@pytest.mark.parametrize(
    "change", [{"ref_id": "s"}, {"amount": "999"}, {"profile_id": "q"}, {"memo": "n"}]
)
def test_a_contradiction(change: dict[str, str]) -> None:
    ((name, found),) = change.items()
    told = differences(MADE, MADE | change, ours=True)
    assert told == [f"{name} is {found!r}, not {MADE[name]!r}"]


US = {"country": "US", "address1": "1 Main St", "city": "New York"}
BANK = {"routing_number_type": "SWIFT", "routing_number": "DEUTDEFFXXX", "bank_name": "Deutsche",
        "bank_address": US}  # fmt: skip
OURS = {"wire": {"account_number": "DE89 3704 0044", "fiat_account_owner_address": US,
                 "routing_details": BANK}}  # fmt: skip
THEIRS = {"wire": {"account_number": "DE8937040044", "routing_details": BANK | {
    "routing_number": "DEUTDEFF", "bank_name": "DEUTSCHE BANK AG",
    "bank_address": {"country": "United States", "address1": "1 MAIN STREET"}}}}  # fmt: skip
COMPANY = {"institution_details": {"name": "Harbor Trading LLC"}}
REGISTERED = {"ref_id": "r", "fiat_account_owner": COMPANY, "fiat_network_instructions": OURS,
              "metadata": {"a": "7"}}  # fmt: skip
MEMO = {"ref_id": "r", "profile_id": "p", "fiat_network": "WIRE", "routing_number_type": "SWIFT"}
QUOTE = {"asset": "USDC", "destination_address": "0xabCD", "crypto_network": "BASE", "amount": "10"}
BY_CRYPTO = RULE | {"source": {"crypto": {"network": "BASE"}}}
TO_P = {"destination": {"profile": {"profile_id": "P"}}}
OWN_ANSWERS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    # The interface lets a service leave members out, mask numbers, spell a country by its name or
    # code, show a company's name among a person's details, and a CUBIX account in two layouts.
    ("create_fiat_account", REGISTERED, {"fiat_network_instructions": THEIRS}),
    ("create_fiat_account", REGISTERED, {"fiat_account_owner": None}),
    ("create_fiat_account", REGISTERED, {"fiat_network_instructions": None}),
    ("create_fiat_account", REGISTERED,
     {"fiat_network_instructions": {"wire": {"account_number": "XXXXXXXX0044"}}}),
    ("create_fiat_account", REGISTERED, {"fiat_network_instructions": {"metadata": {"a": "7"}}}),
    ("create_fiat_account", REGISTERED,
     {"fiat_account_owner": {"person_details": {"name": "HARBOR TRADING LLC"}}}),
    ("create_fiat_account", REGISTERED, {"fiat_account_owner": {
        "institution_details": {"name": "Harbor  Trading LLC"}, "person_details": None}}),
    ("create_fiat_account", REGISTERED, {"metadata": {"a": 7, "b": True}, "identity_id": "i"}),
    ("create_fiat_account", REGISTERED | {"fiat_account_owner": OWNER},
     {"fiat_account_owner": {"person_details": {"first_name": "Ada"}}}),
    ("create_fiat_account", REGISTERED | {"fiat_account_owner": OWNER},
     {"fiat_account_owner": {"person_details": {"name": "Ada Byron"}}}),
    ("create_fiat_account", REGISTERED | {"fiat_network_instructions": {"wallet_address": "cX"}},
     {"fiat_network_instructions": {"cubix": {"account_id": "CX"}}}),
    ("create_fiat_account",
     REGISTERED | {"fiat_network_instructions": {"cubix": {"account_id": "c"}}},
     {"fiat_network_instructions": {"wallet_address": "c"}}),
    ("update_fiat_account",
     {"fiat_network_instructions": {"wire": {"routing_details": {"bank_name": "B"}}}},
     {"fiat_network_instructions": THEIRS}),
    ("create_fiat_deposit_instructions", MEMO, {"fiat_network_instructions": THEIRS}),
    ("create_fiat_deposit_instructions", MEMO, {"fiat_network_instructions": {"metadata": {}}}),
    ("create_fiat_deposit_instructions", MEMO | {"fiat_network": "CUBIX"},
     {"fiat_network_instructions": {"wallet_address": "c"}, "identity_id": "the customer's own"}),
    *(("create_deposit_address", ADDRESS | more,
       {"conversion_target_asset": "NO_CONVERSION", "metadata": {"a": "b"}, "identity_id": "i"})
      for more in ({}, {"metadata": {"a": "b"}}, {"identity_id": "i"})),
    ("create_deposit_address", ADDRESS, {"destination": "what nobody listed"}),
    ("create_deposit_address", ADDRESS | {"conversion_target_asset": "USD"},
     {"conversion_target_asset": None}),
    ("create_orchestration_rule", BY_CRYPTO | {"nickname": "sweep"},
     {"source": {"crypto": {"network": "BASE", "address_id": "a", "address": "0x1"}},
      "nickname": "Sweep (BASE)"}),
    ("create_orchestration_rule", BY_CRYPTO, TO_P),
    ("create_orchestration_rule", BY_CRYPTO | TO_P, {"destination": None}),
    ("create_crypto_withdrawal_fee", QUOTE, {"destination_address": "0xABcd", "total": "10.1"}),
    ("create_fiat_withdrawal", PAYMENT, {"type": "NEW_WITHDRAWAL", "status": "COMPLETE"}),
    ("create_fiat_withdrawal", PAYMENT, {"direction": None, "type": None, "memo": "added"}),
]  # fmt: skip
MIXED_UP: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    *((operation, REGISTERED, {"fiat_network_instructions": other},
       "fiat_network_instructions differs")
      for operation in ("create_fiat_account", "update_fiat_account")
      for other in (wire("999999999"), {"wire": {"account_number": "XXXXX0000"}},
                    {"wire": {"routing_details": BANK | {"routing_number": "COBADEFF"}}},
                    {"wire": {"routing_details": ROUTING}}, {"cubix": {"account_id": "x"}},
                    {"wallet_address": "x"})),
    ("create_fiat_account", REGISTERED,
     {"fiat_account_owner": {"institution_details": {"name": "Other"}}},
     "fiat_account_owner differs"),
    ("create_fiat_account", REGISTERED, {"fiat_account_owner": OWNER},
     "fiat_account_owner differs"),
    ("create_fiat_account", REGISTERED | {"fiat_account_owner": OWNER},
     {"fiat_account_owner": COMPANY}, "fiat_account_owner differs"),
    ("create_fiat_deposit_instructions", MEMO, {"fiat_network_instructions": WIRE},
     "routing_number_type is 'ABA', not 'SWIFT'"),
    ("create_fiat_deposit_instructions", MEMO,
     {"fiat_network_instructions": {"cubix": {"account_id": "x"}}},
     "fiat_network is 'CUBIX', not 'WIRE'"),
    ("create_deposit_address", ADDRESS, {"conversion_target_asset": "USD"},
     "conversion_target_asset is 'USD', not left out"),
    ("create_deposit_address", ADDRESS | {"conversion_target_asset": "USD"},
     {"conversion_target_asset": "NO_CONVERSION"},
     "conversion_target_asset is 'NO_CONVERSION', not 'USD'"),
    ("create_orchestration_rule", BY_CRYPTO, {"source": {"crypto": {"network": "SOLANA"}}},
     "source is {'crypto': {'network': 'SOLANA'}}, not {'crypto': {'network': 'BASE'}}"),
    ("create_orchestration_rule", BY_CRYPTO, {"source": RULE["source"]},
     "source is {'profile': {'profile_id': 'p'}}, not {'crypto': {'network': 'BASE'}}"),
    ("create_orchestration_rule", BY_CRYPTO, TO_Q,
     "destination is {'profile': {'profile_id': 'q'}}, not left out"),
    ("create_orchestration_rule", BY_CRYPTO | TO_P, TO_Q,
     "destination is {'profile': {'profile_id': 'q'}}, not {'profile': {'profile_id': 'P'}}"),
    ("create_crypto_withdrawal_fee", QUOTE, {"destination_address": "0xabCE"},
     "destination_address is '0xabCE', not '0xabCD'"),
    ("create_fiat_withdrawal", PAYMENT, {"direction": "CREDIT"}, "direction is CREDIT"),
    ("create_fiat_withdrawal", PAYMENT, {"type": "WIRE_DEPOSIT"}, "type is WIRE_DEPOSIT"),
]  # fmt: skip


@pytest.mark.parametrize(("operation", "asked", "shown"), OWN_ANSWERS)
def test_the_own_answer_may_say_it_in_other_words(
    operation: str, asked: dict[str, Any], shown: dict[str, Any]
) -> None:
    identity = is_this_payment(asked, asked | {"id": "x"} | shown, operation, ours=True)
    assert identity.contradictions == ()


@pytest.mark.parametrize(("operation", "asked", "shown", "said"), MIXED_UP)
def test_the_own_answer_is_not_about_what_was_asked(
    operation: str, asked: dict[str, Any], shown: dict[str, Any], said: str
) -> None:
    identity = is_this_payment(asked, asked | {"id": "x"} | shown, operation, ours=True)
    assert identity.contradictions == (said,)


texts = st.text(st.characters(codec="utf-8"), max_size=20)
bodies = st.fixed_dictionaries(
    {},
    optional={
        "ref_id": texts,
        "amount": st.decimals(0, 10**9, places=2).map(str),
        "metadata": st.dictionaries(texts, texts, max_size=3),
        "fiat_account_owner": st.builds(
            lambda name: {"institution_details": {"name": name}}, texts
        ),
        "source": st.builds(lambda id_: {"profile": {"profile_id": id_}}, texts),
        "profile_id": texts,
    },
)


@given(bodies)
def test_every_body_is_the_same_as_itself(body: dict[str, Any]) -> None:
    assert differences(body, body) == []


@given(bodies, texts, texts)
def test_every_change_of_a_plain_field_is_found(body: dict[str, Any], one: str, two: str) -> None:
    found = differences(body | {"asset": one}, body | {"asset": two})
    assert bool(found) is (one != two)


def is_an_id(text: str) -> bool:
    controls = [one for one in text if unicodedata.category(one) == "Cc"]
    return text not in ("", ".") and ".." not in text and not {*"/?#"} & {*text} and not controls


@given(texts.filter(is_an_id), texts, texts)
def test_every_text_travels_in_a_path_and_a_query(part: str, name: str, value: str) -> None:
    target = encoded_target("/a/{id}/b", {"id": part}, [(name, value)])
    assert target.isascii()
    assert target.isprintable()
    path, _, query = target.partition("?")
    assert [unquote(piece) for piece in path.split("/")] == ["", "a", part, "b"]
    assert [unquote(piece) for piece in query.split("=")] == [name, value]
