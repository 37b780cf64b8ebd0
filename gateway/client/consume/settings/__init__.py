"""Settings of consumers, and the place at which a group starts to read; all are in ``consumer_settings.py``."""
