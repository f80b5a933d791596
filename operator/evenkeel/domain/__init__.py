"""Frozen values that the parts of Evenkeel exchange. Standard library only."""
