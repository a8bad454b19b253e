"""Model folders: what `transformers` reads, our own words where it has none, old weights, and ONNX graphs."""
