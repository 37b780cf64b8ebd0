"""A fuzzer for the servers: requests made of ``wire``'s own declarations, beside honest clients that are judged.

    python -m gateway.tests.fuzz --minutes 1
    python -m gateway.tests.fuzz --replay build/fuzz/journal.jsonl

What it asks for is bad, or good within a name space of its own: destructive requests name topics, groups, brokers,
keys and transactions of ``names``, never those of the honest clients.
"""
