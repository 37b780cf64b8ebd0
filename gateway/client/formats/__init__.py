"""Formats of what a client sends: message, frame, trace, reply, outcome of a transaction.

Values in, bytes out: no module of this folder does I/O. Read ``outgoing.py`` first.
"""
