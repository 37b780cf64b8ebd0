"""POP consumption: messages are taken for a while with a receipt, and acknowledged one by one.

Read ``pops.py`` first. Simple consumers are in this folder. A push consumer in POP mode is in ``push`` and uses this
folder.
"""
