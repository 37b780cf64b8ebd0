"""The blocking faces of the asyncio clients: the same names and methods, run by a private loop thread.

Nothing is decided here. ``gateway.client`` has these classes under its own name.
"""
