"""Shorter ways for frequent commands, each beside a plain way that gives the same values and the same bytes.

Open ``whole`` first: which commands are read by a form that was learned from earlier ones. Not here: the plain ways
(``wire.headers``, ``wire.message``, ``wire.command``).
"""
