"""Models and logs -> findings: what was learned, with how sure we are of it."""
