/* Aspen as a contender of live_peers.py: a shared library over its headers, for ctypes.
 *
 *   aspen_make()                        an empty graph
 *   aspen_insert(pairs, n, nodes)       one batch, one version, as run_batch_updates.cpp does it
 *   aspen_insert_each(pairs, n, nanos)  n versions of one edge each, timed one by one
 *   aspen_lists(nodes, n)               read the lists of nodes; returns their total length
 *   aspen_sample(...)                   hops of uniform draws, by reading each list of the frontier
 *
 * Caveats: Aspen has no sampler and no access to a list by position, so a draw reads the list up to its
 * end. What it prints goes nowhere. Serial: no scheduler is compiled in.
 */
#include <algorithm>
#include <chrono>
#include <iostream>
#include <random>
#include <utility>
#include <vector>

#include "graph/api.h"

using Pair = std::tuple<uintV, uintV>;
static versioned_graph<treeplus_graph> *graph;

extern "C" void aspen_make() {
    std::cout.setstate(std::ios_base::failbit);
    graph = new versioned_graph<treeplus_graph>();
}

static void insert(const uint32_t *pairs, size_t n, size_t nodes) {
    std::vector<Pair> own(n); /* it sorts them in place */
    for (size_t i = 0; i < n; i++)
        own[i] = Pair(pairs[2 * i], pairs[2 * i + 1]);
    graph->insert_edges_batch(n, own.data(), n == 1, n > 1, nodes, true);
}

extern "C" void aspen_insert(const uint32_t *pairs, size_t n, size_t nodes) {
    insert(pairs, n, nodes);
}

extern "C" void aspen_insert_each(const uint32_t *pairs, size_t n, size_t nodes, int64_t *nanos) {
    for (size_t i = 0; i < n; i++) {
        const auto begin = std::chrono::steady_clock::now();
        insert(pairs + 2 * i, 1, nodes);
        nanos[i] = std::chrono::nanoseconds(std::chrono::steady_clock::now() - begin).count();
    }
}

extern "C" uint64_t aspen_num_edges() {
    auto version = graph->acquire_version();
    const uint64_t found = version.graph.num_edges();
    graph->release_version(std::move(version));
    return found;
}

template <class Graph, class Take> static void read_list(Graph &from, uint32_t node, Take take) {
    auto found = from.find_vertex(node);
    if (!found.valid)
        return;
    found.value.iter_elms(node, [&](const uintV &neighbor) {
        take(neighbor);
        return false;
    });
}

extern "C" uint64_t aspen_lists(const int64_t *nodes, size_t n) {
    auto version = graph->acquire_version();
    uint64_t total = 0;
    for (size_t i = 0; i < n; i++)
        read_list(version.graph, nodes[i], [&](uintV) { total++; });
    graph->release_version(std::move(version));
    return total;
}

extern "C" uint64_t aspen_sample(const int64_t *seeds, size_t n, const int32_t *fanouts, size_t hops,
                                 uint64_t key) {
    auto version = graph->acquire_version();
    std::minstd_rand random(key + 1);
    std::vector<uint32_t> front(seeds, seeds + n), drawn, list;
    uint64_t edges = 0;
    static std::vector<uint64_t> seen; /* by node the last sample that has it */
    static uint64_t sample;
    sample++;
    const auto is_new = [&](uint32_t node) {
        if (node >= seen.size())
            seen.resize(2 * size_t(node) + 1);
        return std::exchange(seen[node], sample) != sample;
    };
    front.erase(std::remove_if(front.begin(), front.end(), [&](uint32_t v) { return !is_new(v); }),
                front.end());
    for (size_t hop = 0; hop < hops; hop++) {
        const size_t k = fanouts[hop];
        drawn.clear();
        for (uint32_t node : front) {
            list.clear();
            read_list(version.graph, node, [&](uintV neighbor) { list.push_back(neighbor); });
            const size_t most = std::min(k, list.size());
            for (size_t i = 0; i < most; i++) {
                std::swap(list[i], list[i + random() % (list.size() - i)]);
                drawn.push_back(list[i]);
            }
        }
        edges += drawn.size();
        front.clear();
        for (uint32_t node : drawn)
            if (is_new(node))
                front.push_back(node);
    }
    graph->release_version(std::move(version));
    return edges;
}
