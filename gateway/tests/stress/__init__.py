"""Threads that use one store at once, and an account that knows what each of them must find."""
