"""The ext fields of commands as typed headers: one class for each request or response, one file for each conversation.

A header states its fields once, in ``class X(Header)``; reading and writing are derived (``declare``). The docstring of
a header names the codes that carry it. Values of bodies are in ``wire.bodies``.
"""
