"""What the adapters of PyG and DGL share: torch tensors, seeds and keys. Needs torch alone."""
