"""What the broker is told to remember: topics, subscription groups, consumer offsets.

Each table lives in memory, answers from there, and is written whole to the JSON file that Apache RocketMQ
keeps it in. Nothing here talks to a client (``gateway.broker``), knows who is connected
(``gateway.membership``) or reads messages (``gateway.store``).
"""
