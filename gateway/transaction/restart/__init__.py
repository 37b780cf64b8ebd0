"""Restart: what a start reads, what a running broker writes for the next start, and moves between state stores.

Open ``start`` first, then ``rebuild`` (what the log says), then ``progress`` (what is written for the next start).

Not here: the state stores (``gateway.transaction.state_stores``).
"""
