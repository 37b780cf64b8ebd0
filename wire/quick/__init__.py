"""Shorter ways for frequent commands; each stands beside a plain way that gives the same values and the same bytes.

Open ``whole`` first: it lists the commands that are read by a form learned from earlier commands. The plain ways are
elsewhere (``wire.headers``, ``wire.message``, ``wire.command``).
"""
