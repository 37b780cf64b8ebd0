"""Consume queues: for each queue of a topic, the places of its messages in the log; which queues exist or were deleted.

Open ``consume_queue`` first, then ``consume_queues``. Nothing here reads the log: ``gateway.store.durability.dispatch``
makes the units of new messages, and ``gateway.store.reading`` follows units into the log.
"""
