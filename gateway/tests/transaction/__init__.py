"""Tests of transactions, on a log in memory (``memory_log``) and a broker around it (``world``)."""
