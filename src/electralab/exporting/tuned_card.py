"""The card of a fine-tuning run moved to reporting/cards.py."""

from electralab.reporting.cards import write_tuned_card

__all__ = ["write_tuned_card"]
