"""Tests of consume queues and of what is noted about them."""
