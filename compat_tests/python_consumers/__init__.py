"""Tests of the Python consumers by kind; ``test_python_client_consume.py`` has their servers and collects them."""
