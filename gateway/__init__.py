"""The RocketMQ gateway: a name server and a broker for stock Apache RocketMQ clients, in one process.

The package ``wire`` holds the formats. This package stores, delivers and decides.
"""
