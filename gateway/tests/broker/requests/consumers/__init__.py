"""Tests of what members of consumer groups ask and say of themselves."""
