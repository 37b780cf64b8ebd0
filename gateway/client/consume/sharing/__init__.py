"""The division of a topic's queues among the members of a group: rebalancing, assignments, locks.

Read ``rebalance.py`` first: pure functions that turn members and queues into the changes to make.
"""
