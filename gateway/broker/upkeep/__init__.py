"""What a broker does from time to time and at its end: jobs that repeat, expiry, the last save of its tables.

Requests are not answered here. The list of jobs is ``gateway.broker.jobs``. Begin with ``upkeep``.
"""
