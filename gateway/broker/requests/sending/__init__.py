"""Requests that write messages: sends, batches, replies, messages sent back or recalled, outcomes of transactions.

Reading messages is not done here. Begin with ``send``; where a message goes is decided in ``placing``.
"""
