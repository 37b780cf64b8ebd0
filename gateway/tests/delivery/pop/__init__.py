"""Pop consumption: what is decided, what is written down, who waits."""
