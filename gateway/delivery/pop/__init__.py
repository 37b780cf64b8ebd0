"""Pop consumption (5.x): the broker shares out messages, not queues, and hides each until it is acknowledged.

``order``, ``check_points`` and ``receipts`` decide and do no I/O. ``revive_log`` keeps what they know in the revive
topic, so that it survives a kill; ``revival`` gives out again what was not acknowledged in time; ``held_pops`` waits
for messages; ``pops`` puts them together. Requests are in ``gateway.broker.requests``.
"""
