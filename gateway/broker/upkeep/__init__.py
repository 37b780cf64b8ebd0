"""The work of a broker from time to time and at its end: periodic jobs, expiry, the last save of its tables.

Requests are not answered here. The list of jobs is in ``gateway.broker.jobs``. Open ``upkeep`` first.
"""
