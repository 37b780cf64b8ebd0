"""Tests of what consumers say of themselves and of the queues they hold."""
