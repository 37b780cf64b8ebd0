"""The name server: which broker serves which topic, and where.

Brokers register, clients ask. Everything known is in memory and comes back with the next registrations; only
the key-value configuration is on disk. It serves Apache's brokers as well as ours, alone or in one process
with a broker. Several name servers know nothing of each other.
"""
