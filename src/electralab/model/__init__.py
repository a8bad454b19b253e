"""Numbers only: ids -> guesses and verdicts. Knows nothing of vocabularies, text or training."""
