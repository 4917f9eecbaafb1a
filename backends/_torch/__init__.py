"""Common parts of the PyG and DGL adapters: tensors, seeds and keys. Needs torch alone."""
