"""Pure decisions: frozen values in, frozen values out. No clock, no randomness, no outside system."""
