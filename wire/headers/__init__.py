"""The ext fields of commands as typed headers: one class per request or response, one file per conversation.

A header states its fields once, in ``class X(Header)``; reading and writing are derived (``declare``). The docstring of
a header names the codes that carry it. Values of bodies live in ``wire.bodies``.
"""
