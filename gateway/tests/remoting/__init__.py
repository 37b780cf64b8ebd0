"""Tests of the remoting package: whole conversations on a memory reactor, no sockets, no sleeping."""
