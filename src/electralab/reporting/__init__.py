"""What artifacts say, as one page of HTML that needs nothing else."""
