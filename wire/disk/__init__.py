"""Formats of the files in a store directory: consume queue, key index, checkpoint, configuration JSON.

Only layouts and arithmetic: which file is open, mapped, flushed or deleted is decided in ``gateway.store``.
The commit log is a row of stored records, see ``wire.message.record``.
"""
