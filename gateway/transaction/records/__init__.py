"""Records: the form of half messages and op records in the log, and reading them from there.

Open ``half_messages`` first (a half message and the final message made from it), then ``op_messages``.

Not here: decisions. Nothing in this folder remembers anything between two calls.
"""
