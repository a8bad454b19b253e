"""The words of the shell -> one call of a verb -> its result printed, and an exit status."""
