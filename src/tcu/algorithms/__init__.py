"""Algorithms on the (m, ℓ)-TCU machine, each beside its theorem's bound."""
