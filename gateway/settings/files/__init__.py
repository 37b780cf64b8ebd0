"""Settings as people write them: properties files, environment and options, and keys that only Apache RocketMQ knows.

Open ``load`` first: the order of the sources, and what happens to a key without a setting. The declarations of settings
are elsewhere (``gateway.settings``).
"""
