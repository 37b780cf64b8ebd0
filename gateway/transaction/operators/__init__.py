"""Operators: what people see of transactions, and the record of what people did to them.

Open ``overview`` first (pages and figures), then ``interventions`` (what people decide) and ``audit`` (the file of
actions).

Not here: the requests that ask for all this (``gateway.broker.requests.transaction_control``).
"""
