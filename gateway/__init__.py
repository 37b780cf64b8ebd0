"""The RocketMQ gateway: a name server and a broker for stock Apache RocketMQ clients, in one process.

The formats live in the package ``wire``; here is what happens to them: storing, delivering, deciding.
"""
