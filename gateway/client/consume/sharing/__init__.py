"""The division of a topic's queues among the members of a group: rebalancing, assignments, locks.

Read ``rebalance.py`` first: a pure function from members and queues to what has to change.
"""
