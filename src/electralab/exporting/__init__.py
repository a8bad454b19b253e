"""A model or run -> what leaves the house: model cards."""
