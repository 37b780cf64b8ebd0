"""Transactions under load, with broker and producers killed: each half message has exactly one outcome.

    python -m compat_tests.transactions_load --transactions 200000 --kills 20 --peer gateway-host --peer rocketmq-5.5.0

``producers`` are stock Java clients in containers of their own, so that they can be killed too; what they answer is
random, what becomes of a transaction in the end is drawn from its number (``fate``). ``account`` holds what they saw
against what is stored. ``test_transactions_load.py`` runs a short form, ``test_transactions_account.py`` shows that
the account notices harm.
"""
