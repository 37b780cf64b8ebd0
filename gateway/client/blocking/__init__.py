"""The blocking clients: the names and methods of the asyncio clients, run on a private loop thread.

All decisions are made by the asyncio clients. ``gateway.client`` exports the blocking classes.
"""
