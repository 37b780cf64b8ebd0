"""The way of a message from an application to a broker, and the traces of messages.

Read ``producer.py`` first, then ``sender.py``, which chooses queues, repeats sends and limits what is in flight.
Transactions use this package and are in ``transact``.
"""
