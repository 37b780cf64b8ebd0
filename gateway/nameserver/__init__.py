"""The name server: which broker serves which topic, and at which address.

Brokers register, and clients ask. The name server keeps everything in memory, and gets it back with the next
registrations of the brokers. Only the key-value configuration is on disk. The name server serves Apache's brokers as
well as ours, alone or in one process with a broker. Several name servers do not know each other.
"""
