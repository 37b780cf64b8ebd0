"""Settings of consumers: where a group begins to read, and how queues are shared among its members.

Read ``consumer_settings.py`` first: push and lite pull consumers add to it.
"""
