"""Messages and everything that travels inside a message: the stored record, batches, properties, flags, ids, hashes.

The stored record is one format with three uses: the commit log on disk, the body of a pull answer, and the body of a
query answer. Commands around messages are in ``wire.headers``, JSON bodies in ``wire.bodies``.
"""
