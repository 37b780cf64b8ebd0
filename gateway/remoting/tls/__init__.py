"""TLS on the listening ports: the first byte of a connection decides whether the connection is encrypted.

``first_byte`` is loaded with the server; the other modules, and the libraries behind them, with the first connection
that needs them. Open ``first_byte.py`` first.
"""
