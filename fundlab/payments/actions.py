"""What changes something at the service: planned, confirmed, journalled, sent, waited for.

In a notebook, a cell each::

    plan = fl.plan_withdrawal(client, profile_id=…, fiat_account_id=…, amount="100.00")
    plan                                        # from, to, amount, fee, balance after, warnings
    transfer = plan.submit(confirm=plan.code)   # once, however often this runs
    fl.wait_for(client, transfer).status        # COMPLETED

Running a cell again does nothing twice. To read a payment from its plan to the answer:
``withdrawals`` (what is looked at and refused, is there another like it), ``plan``
(``Plan.carry_out``: what happens on ``submit``), ``identity`` (which payment is this), and
``journal`` (what is on disk before the first byte is sent).
"""

from fundlab.payments.accounts import AccountUpdatePlan, plan_account_update, register_fiat_account
from fundlab.payments.batches import BatchPlan, plan_withdrawals
from fundlab.payments.deposits import (
    DepositSheet,
    deposit_sheet,
    find_deposits,
    plan_deposit,
    plan_deposit_address,
    simulate_deposit,
    wait_for_deposit,
)
from fundlab.payments.plan import Plan, resume
from fundlab.payments.quotes import FeeQuote, quote_fee
from fundlab.payments.rules import plan_rule
from fundlab.payments.waiting import wait_for
from fundlab.payments.withdrawals import WithdrawalPlan, plan_withdrawal

__all__ = [
    "AccountUpdatePlan",
    "BatchPlan",
    "DepositSheet",
    "FeeQuote",
    "Plan",
    "WithdrawalPlan",
    "deposit_sheet",
    "find_deposits",
    "plan_account_update",
    "plan_deposit",
    "plan_deposit_address",
    "plan_rule",
    "plan_withdrawal",
    "plan_withdrawals",
    "quote_fee",
    "register_fiat_account",
    "resume",
    "simulate_deposit",
    "wait_for",
    "wait_for_deposit",
]
__dir__ = __all__.copy  # what completion offers
