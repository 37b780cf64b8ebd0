"""What may be done to a broker, step by step; each step makes the facts that are promised."""
