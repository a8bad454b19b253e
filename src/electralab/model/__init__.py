"""Numbers only: ids -> logits. Knows nothing of vocabularies, text or training."""
