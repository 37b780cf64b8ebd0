"""Lite topics (5.5): their subscribers, which of them have messages for a client, and how long they stay.

``subscriptions`` decides and does no I/O. ``lite_topics`` combines them with pops, whose order table,
revive topic and held requests serve lite topics as well. Requests are in ``gateway.broker.requests``.
"""
