"""Tests of reading queues."""
