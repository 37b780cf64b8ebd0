"""Tests of the requests about accounts."""
