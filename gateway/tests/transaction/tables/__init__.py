"""Tests of the tables in memory."""
