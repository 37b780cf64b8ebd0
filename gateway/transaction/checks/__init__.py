"""Checks: asking producers for the outcomes that they did not send.

Open ``check_service`` first; ``verdict`` decides what happens to one half message, and ``check_journal`` keeps due
times and counts on disk.

Not here: whose turn it is (``gateway.transaction.tables.check_turns``) and the storing of outcomes
(``gateway.transaction.settling``).
"""
