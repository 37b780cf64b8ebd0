"""Tests of the client in a program: what it loads and logs, how it starts, forks and ends."""
