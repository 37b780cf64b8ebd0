"""Tests of transactions in the whole broker."""
