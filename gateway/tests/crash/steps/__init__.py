"""The steps that can be played on a broker; each makes the facts that are promised."""
