"""The JSON bodies of commands as frozen structs: one file for each conversation.

Each body is declared once as typed fields (``declare.py``), from which reading and writing are derived. ``fastjson.py``
has the dialect: Java's fastjson writes more than JSON, and reads even more than it writes. Batches of messages and
stored records are binary and live in ``wire.message``.
"""
