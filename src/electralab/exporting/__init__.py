"""A model -> folders for transformers and ONNX graphs, tried first, with their license."""
