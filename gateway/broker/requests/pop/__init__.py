"""Requests of consumers that pop: take messages, acknowledge them, keep them for longer; lite topics included.

Check points and positions live in ``gateway.delivery.pop``. Open ``pop`` first.
"""
