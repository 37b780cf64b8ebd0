"""Tests of the client: pure parts directly, the rest against a scripted broker."""
