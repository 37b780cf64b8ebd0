"""Clients and tools with accounts: the files of ACL 1.0, and the users and policies of 5.3 and later.

The same programs, files and users are tried against Apache RocketMQ, as the control, and against this gateway. Begin
with ``stands.py``.
"""
