"""Restart: what a start reads, what a running broker writes for the next start, and moves between state stores.

Open ``rebuild`` first (the start), then ``progress`` (what is written for the next start).

Not here: the state stores themselves (``gateway.transaction.state_stores``).
"""
