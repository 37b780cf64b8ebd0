"""The way of a message from an application to a broker, and the traces of messages.

Read ``producer.py`` first, then ``sender.py``: queues are chosen, sends are repeated, what is in flight is limited.
Transactions build on this room and live in ``transact``.
"""
