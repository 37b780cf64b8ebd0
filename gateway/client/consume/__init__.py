"""Consumption: subscriptions, offsets and pulled messages, as far as all kinds of consumers share them.

Read ``group_consumer.py`` first. Each kind of consumer has a room: ``push`` hands messages to a listener,
``lite_pull`` gives them when they are asked for, ``pop`` takes them with receipts; ``sharing`` divides the queues
among the members of a group, ``settings`` has what users choose.
"""
