"""Stage: prepared data -> a run folder with a pre-trained ELECTRA, exactly resumable."""
