"""The master's side of replication: the port for slaves, what they have, and the batches that wait for them.

Open ``copies`` first: it decides who counts and what is replicated. ``stage`` holds batches until then, ``sending`` is
one connection of a slave, ``talk`` knows its bytes, and ``port`` admits them.
"""
