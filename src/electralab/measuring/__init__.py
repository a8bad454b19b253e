"""Does a model find what is wrong better than counting does? On labelled files, or on errors planted in plain ones."""
