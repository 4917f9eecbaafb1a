"""What tests share: graphs, oracles, servers, brokers, processes, limits and golden files."""
