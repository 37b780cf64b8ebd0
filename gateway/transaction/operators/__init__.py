"""Operators: what people see of transactions, and the record of what people did to transactions.

Open ``overview`` first (pages and figures), then ``interventions`` (what people decide) and ``audit`` (the file of
actions).

Not here: the requests of the operators' commands (``gateway.broker.requests.transaction_control``).
"""
