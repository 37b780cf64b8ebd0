"""Tests of checks: when producers are asked, and what is kept about that."""
