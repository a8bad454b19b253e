"""Settings against each other at equal compute: a matrix of arms and seeds, run, scored and compared."""
