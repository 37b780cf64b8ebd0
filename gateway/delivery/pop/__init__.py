"""Pop consumption (5.x): the broker shares out messages, not queues, and hides each message until it is acknowledged.

``order``, ``check_points`` and ``receipts`` decide and do no I/O. ``revive_log`` keeps their state in the revive topic,
so that the state survives a kill. ``revival`` delivers messages again that were not acknowledged in time. ``held_pops``
waits for messages; ``pops`` combines all of these. Requests are in ``gateway.broker.requests``.
"""
