"""A pre-trained encoder and labelled examples -> a tuned model and its scores.

files -> rows -> examples -> features -> batches -> logits -> predictions -> scores
"""
