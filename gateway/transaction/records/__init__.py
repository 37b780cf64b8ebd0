"""Records: how half messages and op records look in the log, and reading them from there.

Open ``half_messages`` first (a half message and the final message made of it), then ``op_messages``.

Not here: decisions. Nothing in this room remembers anything between two calls.
"""
