"""Requests that write messages: sends, batches, replies, messages sent back or recalled, outcomes of transactions.

Reading messages is not done here. Open ``send`` first; ``placing`` decides where a message goes.
"""
