"""Findings and scores of trained models -> what they say about each claim."""
