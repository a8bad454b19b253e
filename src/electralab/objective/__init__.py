"""Batch -> losses: what is hidden, what is put there instead, and what the two networks are told about it."""
