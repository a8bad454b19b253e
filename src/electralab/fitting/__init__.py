"""From a labelled table to the best of a tuned encoder, a linear model and both together."""
