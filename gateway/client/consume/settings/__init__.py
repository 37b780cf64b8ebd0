"""Settings of consumers: the offset at which a group starts to read, and the sharing of queues among its members.

Read ``consumer_settings.py`` first: push and lite pull consumers add settings of their own.
"""
