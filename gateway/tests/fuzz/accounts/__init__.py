"""Access control while a server is fuzzed: accounts, requests signed in all ways, and the judgement of answers."""
