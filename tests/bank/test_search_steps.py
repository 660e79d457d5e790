"""Which groups each step of the search finds possible, of a few items written out by hand."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from fundlab.bank.search import Group, Item, Search, place_of

Edges = set[frozenset[int]]


def item(number: int, amount: int, first: int, last: int | None = None, **more: Any) -> Item:
    """Of an entry from 0 up, of a transfer from -1 down; ``out`` as its amount says."""
    out = more.pop("out", amount < 0)
    asset = more.pop("asset", "USD")
    return Item(number, str(number), (asset, out), amount, first, last or first, **more)


def search(*items: Item, window: int = 3) -> Search:
    entries, transfers = ([i for i in items if (i.number >= 0) == side] for side in (True, False))
    return Search(entries, transfers, window)


def edges(found: Iterable[frozenset[int]]) -> Edges:
    every = [*found]
    assert len(every) == len({*every})
    return {*every}


def test_what_a_counterpart_may_come_to() -> None:
    assert item(0, 97, 1).totals() == (97,)
    assert item(0, 97, 1, charges=3).totals() == (97, 100)
    assert item(0, 97, 1, charges=3).totals(5) == (102,)
    assert item(-1, 97, 1, charges=3).totals(5) == (97,)
    assert (item(0, 97, 1, charges=3).gross, item(0, 97, 1).asset) == (100, "USD")


def test_what_is_open_is_in_its_order() -> None:
    found = search(*(item(n, 5, 1) for n in (2, 0, 1, -3, -1, -2)))
    assert [place_of(number) for number in (0, 2, -1)] == [(False, 0), (False, 2), (True, 1)]
    assert [one.number for one in found.left(entries=True)] == [0, 1, 2]
    assert [one.number for one in found.left(entries=False)] == [-1, -2, -3]
    found._take(Group("x", {0, -2}))
    assert [one.number for one in found.left(entries=True)] == [1, 2]
    assert (found.matched_entries, found.longest, Search([], [], 3).longest) == (1, 0, 0)


@pytest.mark.parametrize(
    ("members", "of", "alike"),
    [
        ({0, 1, -1}, {0, -1}, True), ({0, 1, -1}, {0}, True), ({0, 2, -1}, {0}, False),
        ({0, 1, -1, -2}, {0}, True), ({0, 1, -1, -2}, {-1}, False),
    ],
)  # fmt: skip
def test_of_each_side_that_is_asked_for_all_have_one_amount(
    members: set[int], of: set[int], alike: bool
) -> None:
    items = [item(n, amount, 1) for n, amount in ((0, 5), (1, 5), (2, 7), (-1, 5), (-2, 7))]
    assert search(*items)._alike(members, of) is alike


@pytest.mark.parametrize(
    ("number", "waits", "another"), [(-1, 0, True), (0, -1, True), (1, 0, False), (-2, -1, False)]
)
def test_another_of_its_amount_is_of_the_other_side(number: int, waits: int, another: bool) -> None:
    items = {n: item(n, 5, 1) for n in (0, 1, -1, -2)}
    found = search(*items.values())
    assert found._has_another(number, {("USD", 5): [items[waits]]}) is another


@pytest.mark.parametrize(
    ("entry", "transfer", "early", "near"),
    [
        # A transfer made on day 10 and settled on day 12, three days at most before.
        ((10, 10), {}, 0, True), ((9, 9), {}, 0, False), ((9, 9), {}, 1, True),
        ((8, 8), {}, 1, False), ((8, 10), {}, 0, True), ((15, 15), {}, 0, True),
        ((16, 16), {}, 0, False), ((15, 20), {}, 0, True),
    ],
)  # fmt: skip
def test_an_entry_is_near_by_its_days(
    entry: tuple[int, int], transfer: Any, early: int, near: bool
) -> None:
    one, other = item(0, 5, *entry), item(-1, 5, 10, 12)
    found = search(one, other)
    found.early = early
    assert found.near(one, other) is found.near(other, one) is near


def test_an_entry_is_near_by_whom_it_names() -> None:
    plain, named = item(-1, 5, 1), item(-2, 5, 1, names=("acme",), party="acme")
    other = item(-3, 5, 1, names=("bob",), party="bob")
    for given, near in (
        ({}, {-1, -2, -3}),
        ({"names": ("acme",)}, {-1, -2}),
        ({"names": ("carl",)}, {-1, -2, -3}),
        ({"mentions": (plain,)}, {-1}),
        ({"mentions": (plain,), "names": ("bob",)}, {-1, -3}),
    ):
        entry = item(0, 5, 1, **given)
        found = search(entry, plain, named, other)
        assert {t.number for t in (plain, named, other) if found.near(entry, t)} == near, given


def test_a_pair_that_was_forbidden_is_in_no_group() -> None:
    found = search(item(0, 5, 1), item(1, 5, 1), item(-1, 5, 1), item(-2, 5, 1))
    assert found.allowed({0, -1})
    found.take_by_hand([(0, -2)], [(1, -1)])
    (group,) = found.groups
    assert group.members == {0, -2}
    for edge, allowed in (({1, -1}, False), ({1, -1, -2}, False), ({0, -1}, True), ({1}, True)):
        assert found.allowed(edge) is allowed


@pytest.mark.parametrize(
    ("entry", "less", "found"),
    [
        ({"amount": 1000}, 0, True), ({"amount": 999}, 0, False),
        ({"amount": 970, "charges": 30}, 0, True), ({"amount": 970, "charges": 29}, 0, False),
        ({"amount": 995}, 5, True), ({"amount": 1000}, 5, False),
        ({"amount": 1000, "asset": "EUR"}, 0, False),
        ({"amount": 1000, "asset": "EUR"}, None, False),
        ({"amount": 990}, None, True), ({"amount": 1010}, None, True),
        ({"amount": 989}, None, False),
        ({"amount": 1000, "out": True}, None, False), ({"amount": 1000, "out": True}, 0, True),
    ],
)  # fmt: skip
def test_an_entry_that_names_a_transfer(entry: dict[str, Any], less: Any, found: bool) -> None:
    transfer, other = item(-1, 1000, 1), item(-2, 1000, 1)
    amount = entry.pop("amount")
    one = item(0, amount, 90, mentions=(transfer,), **entry)
    assert edges(search(one, transfer, other).by_reference(less)) == (
        {frozenset((0, -1))} if found else set()
    )


def test_of_nearly_an_amount_neither_may_name_another_one() -> None:
    first, second = item(-1, 1000, 1), item(-2, 1000, 1)
    both = item(0, 1000, 1, mentions=(first, second))
    assert edges(search(both, first, second).by_reference(None)) == set()
    assert edges(search(both, first, second).by_reference()) == {
        frozenset((0, -1)), frozenset((0, -2))
    }  # fmt: skip
    ones = [item(n, 1000, 1, mentions=(first,)) for n in (0, 1)]
    found = search(*ones, first, second)
    assert edges(found.by_reference(None)) == set()
    found._take(Group("x", {-1}))
    assert edges(found.by_reference()) == set()


def test_several_that_name_each_other_are_one_group_if_they_balance() -> None:
    first, second = item(-1, 10, 1), item(-2, 20, 1)
    for amount, charges, found in ((30, 0, True), (29, 1, True), (29, 0, False)):
        one = item(0, amount, 1, mentions=(first, second), charges=charges)
        assert edges(search(one, first, second).by_references()) == (
            {frozenset((0, -1, -2))} if found else set()
        )
    assert not edges(search(item(0, 10, 1, mentions=(first,)), first).by_references())
    other = item(0, 30, 1, mentions=(first, second), asset="EUR")
    assert not edges(search(other, first, second).by_references())


def test_pairs_of_one_amount_that_a_name_supports() -> None:
    ours = [item(-1, 10, 1, names=("acme", "x")), item(-2, 10, 9, names=("acme",)),
            item(-3, 11, 1, names=("acme",)), item(-4, 10, 1, names=("acme",), asset="EUR"),
            item(-5, 10, 1, names=("bob",))]  # fmt: skip
    entry = item(0, 10, 1, names=("acme", "x"))
    assert {*search(entry, *ours).by_name()} == {frozenset((0, -1))}
    charged = item(0, 10, 1, names=("acme",), charges=1)
    assert {*search(charged, *ours).by_name()} == {frozenset((0, -1)), frozenset((0, -3))}
    assert {*search(entry, *ours).by_name(1)} == {frozenset((0, -3))}


@pytest.mark.parametrize(
    ("amount", "day", "found"),
    [
        (95, 10, True), (94, 10, False), (105, 10, True), (106, 10, False),
        (100, 9, True), (100, 8, False), (100, 14, True), (100, 15, False),
    ],
)  # fmt: skip
def test_a_rule_allows_so_much_and_so_many_days(amount: int, day: int, found: bool) -> None:
    """Of a transfer of 100 made on day 10 and settled on day 12: by 5, and by 2 days."""
    transfer = item(-1, 100, 10, 12, rules=(7,))
    others = [item(-2, 100, 10, rules=(8,)), item(-3, 100, 10, rules=(7,), out=True),
              item(-4, 50, 10, rules=(7,)), item(-5, 150, 10, rules=(7,))]  # fmt: skip
    for order in ([transfer, *others], [*others[::-1], transfer]):
        entry = item(0, amount, day, rules=(7,))
        expected = {frozenset((0, -1))} if found else set()
        assert edges(search(entry, *order).by_rule(7, 2, 5)) == expected
        named = item(0, amount, day, rules=(7,), mentions=(transfer,))
        assert edges(search(named, *order).by_rule(7, 2, 5)) == expected
        for given in ({"rules": (8,)}, {"rules": (7,), "mentions": (others[0],)}):
            assert not edges(search(item(0, amount, day, **given), *order).by_rule(7, 2, 5))


def test_the_days_that_may_be_near_reach_as_far_as_the_longest_item() -> None:
    found = search(item(0, 5, 10), item(-1, 5, 1, 3), item(-2, 5, 7), window=3)
    assert found.longest == 2
    assert found.reach(found.items[0]) == range(6, 17)


def test_sums_of_a_day_and_of_a_window() -> None:
    ours = [item(-1, 10, 5), item(-2, 20, 5), item(-3, 20, 6), item(-4, 30, 5), item(-5, 5, 5)]
    entry = item(0, 30, 6)
    by_day, by_window = search(entry, *ours), search(entry, *ours)
    assert edges(by_day.by_sum(by_day.day_pools)) == {frozenset((0, -1, -2))}
    assert by_day.tries == 1
    assert edges(by_window.by_sum(by_window.window_pools)) == {
        frozenset((0, -1, -2)), frozenset((0, -1, -3))
    }  # fmt: skip
    assert by_window.chance.keys() == edges(search_again(by_window))
    two = search(item(0, 30, 6), *ours[:2])
    assert edges(two.by_sum(two.window_pools)) == {frozenset((0, -1, -2))}
    one = search(item(0, 30, 6), ours[0])
    assert not edges(one.by_sum(one.window_pools))
    assert one.tries == 0
    less = search(item(0, 28, 6), *ours)
    assert edges(less.by_sum(less.day_pools, 2)) == {frozenset((0, -1, -2))}
    charged = search(item(0, 28, 6, charges=2), *ours)
    assert edges(charged.by_sum(charged.day_pools)) == {frozenset((0, -1, -2))}
    # One transfer for several entries: not where the bank keeps back.
    turned = search(item(0, 10, 6), item(1, 20, 6), item(-1, 30, 5))
    assert edges(turned.by_sum(turned.day_pools)) == {frozenset((0, 1, -1))}
    assert not edges(turned.by_sum(turned.day_pools, 2))


@pytest.mark.parametrize(
    ("unit", "count", "found"), [(1, 6, True), (1, 7, False), (10**6, 10, True), (10**6, 11, False)]
)
def test_sums_of_a_small_amount_are_those_of_fewer(unit: int, count: int, found: bool) -> None:
    """Of a day's transfers of 1, 2, 4 and so on: 1 and 2 and the last are the entry's."""
    ours = [item(-n, unit << n - 1, 5) for n in range(1, count + 1)]
    one = search(item(0, (unit << count - 1) + 3 * unit, 6), *ours)
    assert edges(one.by_sum(one.day_pools)) == (
        {frozenset((0, -1, -2, -count))} if found else set()
    )
    assert one.crowded == ({} if found else {0: count})


def search_again(found: Search) -> Iterable[frozenset[int]]:
    return found.by_sum(found.window_pools)


def test_sums_of_what_an_entry_names() -> None:
    ours = [item(-1, 10, 5, names=("acme",)), item(-2, 20, 9, names=("acme",)),
            item(-3, 20, 5, names=("bob",)), item(-4, 20, 60, names=("acme",))]  # fmt: skip
    named = search(item(0, 30, 9, names=("acme",)), *ours, window=5)
    assert edges(named.by_sum(named.named_pools)) == {frozenset((0, -1, -2))}
    named.held[-1] = "a question"
    named.open -= {-1}
    assert edges(named.by_sum(named.named_pools)) == {frozenset((0, -1, -2))}
    named._take(Group("x", {-2}))
    assert not edges(named.by_sum(named.named_pools))
    both = search(item(0, 30, 9, names=("acme", "bob")), *ours, window=5)
    assert edges(both.by_sum(both.named_pools)) == {frozenset((0, -1, -2)), frozenset((0, -1, -3))}
    mentions = search(item(0, 30, 70, mentions=(ours[0], ours[2])), *ours, window=70)
    assert edges(mentions.by_sum(mentions.named_pools)) == {frozenset((0, -1, -3))}
    one = item(-1, 30, 5)
    theirs = [item(n, amount, 6, mentions=(one,)) for n, amount in ((0, 10), (1, 20))]
    turned = search(*theirs, item(2, 20, 6), one)
    assert edges(turned.by_sum(turned.named_pools)) == {frozenset((0, 1, -1))}


def test_all_of_a_day_or_of_a_key_or_so_many_one_after_the_other() -> None:
    keys = (("party", "x"),)
    ours = [item(-1, 10, 5, keys=keys), item(-2, 20, 5), item(-3, 5, 5, keys=keys)]
    for amount, longest, expected in (
        (35, None, {frozenset((0, -1, -2, -3))}),
        (15, None, {frozenset((0, -1, -3))}),
        (30, None, set()),
        (10, None, set()),
        (30, 2, {frozenset((0, -1, -2))}),
        (25, 2, {frozenset((0, -2, -3))}),
        (35, 2, set()),
        (35, 3, {frozenset((0, -1, -2, -3))}),
    ):
        found = search(item(0, amount, 6), *ours)
        assert {*found.by_total(longest)} == expected, (amount, longest)
        assert found.tries == 4
    assert not {*search(item(0, 35, 60), *ours).by_total()}
    turned = search(item(0, 10, 6), item(1, 20, 6), item(-1, 30, 6))
    assert {*turned.by_total()} == {frozenset((0, 1, -1))}
    charged = search(item(0, 33, 6, charges=2), *ours)
    assert {*charged.by_total()} == {frozenset((0, -1, -2, -3))}


def test_several_for_several_of_a_name_without_a_gap() -> None:
    def of_acme(number: int, amount: int, first: int, last: int | None = None) -> Item:
        return item(number, amount, first, last, names=("acme",))

    four = [of_acme(0, 10, 5), of_acme(1, 25, 6), of_acme(-1, 15, 4), of_acme(-2, 20, 5)]
    assert edges(search(*four).by_many()) == {frozenset((0, 1, -1, -2))}
    assert not edges(search(*four[1:]).by_many())
    assert not edges(search(*four, of_acme(2, 1, 6)).by_many())
    assert not edges(search(*four[:3], item(-2, 20, 5)).by_many())
    assert not edges(search(*four[:3], of_acme(-2, 20, 1)).by_many()), "which is not near the last"
    assert not edges(search(*four[:3], of_acme(-2, 20, 6)).by_many()), "nor this near the first"
    apart = [of_acme(0, 10, 1), of_acme(1, 25, 5), of_acme(-1, 15, 1, 5), of_acme(-2, 20, 1, 5)]
    assert edges(search(*apart).by_many()) == {frozenset((0, 1, -1, -2))}
    later = [of_acme(2, 10, 15), of_acme(3, 25, 16), of_acme(-3, 15, 14), of_acme(-4, 20, 15)]
    assert edges(search(*four, *later).by_many()) == {
        frozenset((0, 1, -1, -2)), frozenset((2, 3, -3, -4))
    }  # fmt: skip
    found = search(window=3)
    for days, sizes in (
        ([(1, 1), (5, 5)], [2]), ([(1, 1), (6, 6)], [1, 1]), ([(1, 3), (2, 2), (7, 7)], [3]),
        ([(1, 3), (2, 2), (8, 8)], [2, 1]), ([], []),
    ):  # fmt: skip
        items = [item(n, 5, *span) for n, span in enumerate(days)]
        assert [len(cluster) for cluster in found._clusters(items[::-1])] == sizes


def test_what_may_be_a_part_of_something_larger() -> None:
    acme: dict[str, Any] = {"names": ("acme",), "party": "acme"}
    ours = [item(-1, 10, 5, **acme), item(-2, 20, 5, **acme), item(-3, 30, 5, **acme),
            item(-4, 7, 5, **acme), item(-5, 20, 60, **acme)]  # fmt: skip
    naming = item(0, 30, 5, names=("acme",))
    found = search(naming, *ours)
    assert found._spoken_for() == {-1, -2}
    two = [item(0, 10, 5, names=("acme",)), item(1, 30, 5, names=("acme",))]
    assert search(*two, *ours)._spoken_for() == {-1, -2}, "of transfers alone"
    found._take(Group("x", {0, -3}))
    assert found._spoken_for() == set()
    silent = item(0, 30, 5)
    assert search(silent, *ours)._parts_of_others() == set(), "there is one of its own amount"
    assert search(silent, *ours[:2], *ours[3:])._parts_of_others() == {-1, -2}
    assert search(silent, ours[0], item(-2, 20, 6, **acme))._parts_of_others() == set()
    assert search(silent, ours[0], item(-2, 20, 5))._parts_of_others() == set()
    assert search(item(0, 10, 5), ours[0])._parts_of_others() == set()


def test_one_that_stands_for_the_rest_of_a_block_takes_the_block() -> None:
    found = search(*(item(n, 5, 1) for n in (0, 1, -1, -2, -3)))
    found._take(Group("amount", {0, 1, -1, -2, -3}, 0, True, {-3}))
    assert (found.open, found.matched_entries) == ({-3}, 2)
    found._take(Group("later", {2, -3}))
    (group,) = found.groups
    assert (group.how, group.members, group.rest, group.block) == (
        "later", {0, 1, 2, -1, -2, -3}, set(), True
    )  # fmt: skip
    assert not found.open
    assert not found.block_of


def test_what_is_in_doubt_is_asked_where_nothing_better_took_it() -> None:
    found = search(*(item(n, 5, 1) for n in (0, 1, -1, -2)))
    found.doubts = {frozenset((0, -1)): "sum", frozenset((1, -2)): "sum"}
    found._take(Group("x", {1}))
    found.ask_what_is_in_doubt()
    assert found.questions == [("sum", [frozenset((0, -1))])]
    assert found.held == dict.fromkeys((0, -1), "a sum that chance makes, too")


def stepped(how: str, *given: set[int], more: int = 0, chance: float = 0.0) -> Search:
    """After a step of these edges; ``more`` items beside theirs, and each tried once."""
    numbers = {n for edge in given for n in edge} | {n + 90 for n in range(more)}
    found = search(*(item(n, 5, 1) for n in numbers))

    def possible() -> Iterable[frozenset[int]]:
        for edge in map(frozenset, given):
            found.tries += 1
            found.chance[edge] = chance
            yield edge

    found.step(how, possible())
    return found


def groups(found: Search) -> list[tuple[str, set[int], bool]]:
    return [(group.how, group.members, group.block) for group in found.groups]


def test_a_step_takes_what_has_one_answer_and_asks_about_the_rest() -> None:
    assert groups(stepped("name", {0, -1})) == [("name", {0, -1}, False)]
    block = stepped("name", {0, -1}, {0, -2})
    assert groups(block) == [("name", {0, -1, -2}, True)]
    assert len(block.open) == 1
    for how, kind in (("day", "day"), ("counterparty", "counterparty_sum")):
        assert groups(stepped(how, {0, -1, -2})) == [(kind, {0, -1, -2}, False)]
    two = stepped("counterparty", {0, -1, -2}, {1, -3}, {1, -4})
    assert ("counterparty_sum", {0, -1, -2}, False) in groups(two)
    assert ("counterparty", {1, -3, -4}, True) in groups(two)
    either_way = ({0, -1, -2}, {1, -3, -4}, {0, -3, -4}, {1, -1, -2})
    assert groups(stepped("day", *either_way)) == [("day", {0, 1, -1, -2, -3, -4}, True)]
    asked = stepped("tolerance", {0, -1}, {0, -2})
    assert groups(asked) == []
    assert asked.held == dict.fromkeys((0, -1, -2), "several answers")
    assert not asked.open
    assert groups(stepped("tolerance", {0, -1})) == [("tolerance", {0, -1}, False)]


def test_a_sum_and_a_pair_of_one_answer_each_say_which_they_are() -> None:
    """-1 is of 0 alone, so that -2 is of 1, with -3."""
    found = stepped("counterparty", {0, -1}, {0, -2}, {1, -2, -3})
    assert sorted(groups(found), key=str) == [
        ("counterparty", {0, -1}, False), ("counterparty_sum", {1, -2, -3}, False)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("edge", "held", "taken"),
    [
        # Of what the others sum to: it may be the counterpart.
        ({0, -1, -2}, -3, False),
        ({0, 1, -5}, 2, False),
        # Of what one of a sum's parts has.
        ({0, -1, -2}, 1, True),
        ({0, 1, -5}, -2, True),
        # A pair is not the only one of its amount either way.
        ({0, -3}, -4, True),
    ],
)
def test_a_sum_is_asked_about_where_one_that_is_held_back_is_of_its_amount(
    edge: set[int], held: int, taken: bool
) -> None:
    amounts = {0: 5, 1: 3, 2: 8, -1: 2, -2: 3, -3: 5, -4: 5, -5: 8}
    found = search(*(item(n, amount, 1) for n, amount in amounts.items()))
    found._hold([held], "a question")
    found.step("day", [frozenset(edge)])
    assert groups(found) == ([("day", edge, False)] if taken else [])


@pytest.mark.parametrize(
    ("more", "chance", "taken"), [(17, 0.02, True), (18, 0.01, True), (18, 0.0101, False)]
)
def test_what_chance_makes_is_taken_among_few_or_where_it_is_unlikely(
    more: int, chance: float, taken: bool
) -> None:
    """Of 20 and of 21 items, tried once."""
    found = stepped("day", {0, -1, -2}, more=more, chance=chance)
    assert len(found.items) == more + 3
    assert (groups(found) == [("day", {0, -1, -2}, False)]) is taken
    assert found.doubts == ({} if taken else {frozenset((0, -1, -2)): "day"})
    named = stepped("counterparty", {0, -1, -2}, more=more, chance=chance)
    assert bool(named.questions) is not taken
    assert set(named.held.values()) == (set() if taken else {"a sum that chance makes, too"})
