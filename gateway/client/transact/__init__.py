"""Transactions: half messages, the outcomes of local transactions, and the checks that brokers ask for.

Read ``transaction_producer.py`` first. The package ``send`` sends the half messages.
"""
