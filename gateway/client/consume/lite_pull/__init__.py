"""Lite pull consumers: the application asks for messages, batch by batch. Read ``lite_pull_consumer.py`` first."""
