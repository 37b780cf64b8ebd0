"""The tables that a broker keeps: topics, subscription groups, consumer offsets.

Each table lives in memory, answers from memory, and is written as a whole to Apache RocketMQ's JSON file for this
table. Nothing here talks to a client (``gateway.broker``), knows who is connected (``gateway.membership``) or reads
messages (``gateway.store``). Open ``topics.py`` first.
"""
