"""A model as it is, without fine-tuning -> scores."""
