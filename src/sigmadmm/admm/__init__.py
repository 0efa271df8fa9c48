"""ADMM for networks: the state, the blocks, the one loop, the diagnostics and the methods."""
