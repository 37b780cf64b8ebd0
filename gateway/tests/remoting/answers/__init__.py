"""Tests of answers on their way: what is written together, and who has to wait for room."""
