"""The card of a pre-training run moved to reporting/cards.py."""

from electralab.reporting.cards import write_run_card as write_card

__all__ = ["write_card"]
