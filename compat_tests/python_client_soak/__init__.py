"""Every kind of Python client at work for half an hour, in one process: does its memory stay flat, is anything lost.

    python -m compat_tests.python_client_soak --minutes 30

``account`` counts what was sent, received, lost and doubled with a memory that does not grow; ``memory`` judges the
samples; ``clients`` are the producers and consumers; ``command`` runs them against a gateway that is killed at times.
"""
