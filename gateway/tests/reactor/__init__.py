"""Tests of the loop: its ways are told apart by what they call, on stand-ins or with sockets of this machine."""
