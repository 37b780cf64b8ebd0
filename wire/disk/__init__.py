"""The formats of the files in a store directory: consume queue, key index, checkpoint, configuration JSON.

Only layouts and arithmetic are here; ``gateway.store`` opens, maps, flushes and deletes files. The commit log is a row
of stored records (``wire.message.record``).
"""
