"""POP consumption: messages are taken for a while with a receipt, and acknowledged one by one.

Read ``pops.py`` first. Simple consumers live here; a push consumer in POP mode is in ``push`` and uses this room.
"""
