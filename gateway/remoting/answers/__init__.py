"""Answers on their way to the peers: gathered in a turn, written together, and counted until they are taken.

Nothing here makes an answer or reads a request. Open ``output.py`` first: the bytes of one connection.
"""
