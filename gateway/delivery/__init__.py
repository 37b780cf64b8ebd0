"""The way of stored messages to consumers: held pulls, filters, the retry and dead-letter decisions.

``gateway.broker.requests`` decides what a consumer asks for; ``gateway.store`` holds the stored messages. Open
``long_poll.py`` first.
"""
