"""Tests of the asyncio clients, against a scripted broker on this machine."""
