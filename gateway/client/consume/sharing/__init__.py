"""The division of a topic's queues among the members of a group: rebalancing, assignments, locks.

Read ``rebalancing.py`` first.
"""
