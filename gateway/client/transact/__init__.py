"""Transactions: half messages, the outcomes of local transactions, and the checks that brokers ask for.

Read ``transaction_producer.py`` first. Half messages themselves are sent by ``send``.
"""
