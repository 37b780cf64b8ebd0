"""Checks: asking producers for the outcomes that they did not send.

Open ``check_service`` first. ``phases`` says what the service is doing and when it wakes, ``verdict`` decides about one
half message. ``check_journal`` keeps due times and counts on disk.

Not here: the turns of the groups (``gateway.transaction.tables.check_turns``) and the storing of outcomes
(``gateway.transaction.settling``).
"""
