"""Models and logs -> findings: numbers with an interval, beside what the same measure says of a control."""
