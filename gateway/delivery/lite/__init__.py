"""Lite topics (5.5): which client subscribes to which, which have something for it, and how long they stay.

``subscriptions`` and ``expiry`` decide and do no I/O; ``lite_topics`` puts them together with pops, whose order table,
revive topic and held requests serve lite topics as well. Requests are in ``gateway.broker.requests``.
"""
