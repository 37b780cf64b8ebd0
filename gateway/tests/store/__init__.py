"""Tests of the message store, named for what may go wrong."""
