"""Tables in memory: what the broker knows about half messages without reading the log.

Open ``transaction_tables`` first (all of them as one value), then ``pending`` (the half messages without outcome),
``outcomes`` (the state of every half message) and ``check_turns`` (which of them is checked next).

Not here: files. Every table is filled again from the log at start (``gateway.transaction.restart``).
"""
