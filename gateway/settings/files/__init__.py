"""Settings as people write them: properties files, environment and options, and keys that only Apache RocketMQ knows.

Open ``load`` first: the order of the sources, and what happens to a key without a setting. Not here: which settings
there are (``gateway.settings``).
"""
