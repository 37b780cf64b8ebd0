"""Requests of consumers that pop messages, lite topics included: take messages, acknowledge them, keep them for longer.

Check points and positions live in ``gateway.delivery.pop``. Begin with ``pop``.
"""
