"""Tests of lite topics, with clients that subscribe to them."""
