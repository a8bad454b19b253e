"""Labelled files -> examples -> features; a kind of task is one file that encodes, trains, decodes and scores.

    Task, folder -> TaskData -> EncodedSplit -> logits -> Prediction... -> SplitScores

`catalog` names the tasks, `kinds` the kinds; nothing else knows how many there are.
"""
