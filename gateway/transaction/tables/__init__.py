"""Tables in memory: what the broker knows about half messages without reading the log.

Open ``transaction_tables`` first (all tables as one value), then ``pending`` (the half messages without outcome).
``outcomes`` has the state of every half message, and ``check_turns`` decides which half message is checked next.

Not here: files. Every table is filled again from the log at start (``gateway.transaction.restart``).
"""
