/*
 * order/undirected.h - the undirected lists of a graph, by rank: what every order of nodes is made from.
 *
 *   topologies  --degrees-->  ends of edges of each node     --ranks-->  nodes by ascending degree
 *        |                                                                  |
 *        '------------------------- fill ----------------------------------'
 *                                    v
 *   places     0    0    2    5  ...      list of rank r: neighbors[places[r] .. places[r + 1])
 *   neighbors  7 9 | 1 8 8 | ...          ranks of the other ends, an entry for each edge
 *
 * An edge is in the lists of both of its ends, whichever direction is stored; loops are left out. Ranks
 * go by degree, then by id, so that work in ascending degree reads the lists one after the other, and
 * nodes of many edges lie together. Several topologies make one graph if each is given the number of its
 * first node on both sides: so the types of a typed graph get one order.
 *
 * A graph that holds every edge in both directions (as undirected graphs are stored) would have every edge
 * twice. `balance` tells: it adds a hash of (major, minor) and takes one of (minor, major) for every edge,
 * and is 0 where both occur equally often, but for one graph in 2^64. Such a graph is filled one way, which
 * changes no order: all weights are half of what they were.
 *
 * Caveats
 *   - Fewer than 2^32 - 1 nodes in all. Weights of edges play no part.
 *   - Memory: 8 bytes per node for places, 4 for ranks and 4 for nodes; 4 bytes per entry, of which an edge
 *     has two (one, where both directions are stored). One thread.
 *   - The entries of a list are in no particular order before aether_order_sort().
 */
#ifndef AE_ORDER_UNDIRECTED_H
#define AE_ORDER_UNDIRECTED_H

#include "aether/build.h"

/* Nodes of which lists can be made. */
#define AE_ORDER_MOST (UINT64_C(0xFFFFFFFF) - 1)

/* Fail with AETHER_E_LIMIT unless lists of n nodes can be made. */
int ae_order_check_count(uint64_t n, aether_error *err);

/* Fail with AETHER_E_CORRUPT unless the places of n lists ascend from 0. */
int ae_order_check_places(const uint64_t *places, uint64_t n, aether_error *err);

/* Fail with AETHER_E_CORRUPT and an entry that is no rank. */
int ae_order_bad_entry(uint64_t position, uint32_t entry, uint64_t n, aether_error *err);

#endif
