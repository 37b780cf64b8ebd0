"""Tests of settings that change while the broker runs; open ``test_followed_settings`` first."""
