"""A model folder -> answers."""
