"""Requests about accounts: those of ACL 1.0, and the users and policies of 5.3 and later."""
