"""Answers on their way to the peers: gathered in a turn, written at once, and counted until the peers have taken them.

Nothing here makes an answer or reads a request. Open ``output.py`` first: the outgoing bytes of one connection.
"""
