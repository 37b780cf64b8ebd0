"""Checks: asking producers for the outcomes that they did not send.

Open ``check_service`` first; ``phases`` says what it is doing and when it wakes, ``verdict`` decides what happens to
one half message, ``asking`` hands a check to a producer, and ``check_journal`` keeps due times and counts on disk.

Not here: whose turn it is (``gateway.transaction.tables.check_turns``) and the storing of outcomes
(``gateway.transaction.settling``).
"""
