"""Tests of queues of each kind and number, in the whole broker."""
