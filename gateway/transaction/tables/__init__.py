"""Tables in memory: what the broker knows about half messages without reading the log.

Open ``pending`` first (the half messages without outcome), then ``outcomes`` (the state of every half message) and
``check_turns`` (which of them is checked next).

Not here: files. Every table is filled again from the log at start (``gateway.transaction.restart``).
"""
