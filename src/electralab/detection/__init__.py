"""Which words of a text are wrong: all that is known of each word, put together as one calibrated probability."""
