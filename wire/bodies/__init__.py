"""The JSON bodies of commands, as frozen structs: one file per conversation.

Each body is declared once as typed fields (``declare.py``); reading and writing are derived.
``fastjson.py`` is the dialect: what Java's fastjson writes is more than JSON, and what it reads is more
still. Batches of messages and stored records are binary and live in ``wire.message``.
"""
