"""Consumption: subscriptions, offsets and pulled messages, as far as all kinds of consumers share them.

Read ``group_consumer.py`` first. Each kind of consumer has a folder: ``push`` hands messages to a listener,
``lite_pull`` returns messages when the application asks, ``pop`` takes messages with receipts. ``sharing`` divides the
queues among the members of a group, and ``settings`` holds what users choose.
"""
