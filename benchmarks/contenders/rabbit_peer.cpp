// Rabbit Order by its authors' header (https://github.com/araij/rabbit_order), beside ours.
//
//   rabbit_peer EDGES NODES OUT     EDGES: pairs of uint32; OUT: permutation, then communities, uint32
//
// Prints the processor seconds from adjacency lists to the permutation. Lists are symmetric, sorted,
// without loops, with the number of edges as weights: what the authors' program makes of an edge list.

// Newer versions of Boost refuse an atomic of the header's pair of words: the check is left out.
#include <boost/static_assert.hpp>
#undef BOOST_STATIC_ASSERT_MSG
#define BOOST_STATIC_ASSERT_MSG(condition, message) static_assert(true, message)

#include <rabbit_order.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <utility>
#include <vector>

typedef std::vector<std::vector<std::pair<uint32_t, float>>> lists_t;

static std::vector<uint32_t> read_ids(const char *path) {
    std::vector<uint32_t> ids;
    std::FILE *file = std::fopen(path, "rb");
    if (!file)
        return ids;
    std::fseek(file, 0, SEEK_END);
    ids.resize(static_cast<size_t>(std::ftell(file)) / sizeof(uint32_t));
    std::rewind(file);
    if (std::fread(ids.data(), sizeof(uint32_t), ids.size(), file) != ids.size())
        ids.clear();
    std::fclose(file);
    return ids;
}

static lists_t make_lists(const std::vector<uint32_t> &ids, size_t nodes) {
    std::vector<std::vector<uint32_t>> ends(nodes);
    for (size_t i = 0; i + 1 < ids.size(); i += 2) {
        if (ids[i] == ids[i + 1])
            continue;
        ends[ids[i]].push_back(ids[i + 1]);
        ends[ids[i + 1]].push_back(ids[i]);
    }
    lists_t lists(nodes);
    for (size_t v = 0; v < nodes; v++) {
        std::sort(ends[v].begin(), ends[v].end());
        for (uint32_t u : ends[v]) {
            if (!lists[v].empty() && lists[v].back().first == u)
                lists[v].back().second += 1;
            else
                lists[v].emplace_back(u, 1.0f);
        }
        std::vector<uint32_t>().swap(ends[v]);
        lists[v].shrink_to_fit();
    }
    return lists;
}

int main(int argc, char **argv) {
    if (argc != 4)
        return 2;
    const size_t nodes = static_cast<size_t>(std::atoll(argv[2]));
    lists_t lists = make_lists(read_ids(argv[1]), nodes);
    const std::clock_t start = std::clock();
    auto graph = rabbit_order::aggregate(std::move(lists));
    const auto perm = rabbit_order::compute_perm(graph);
    const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    std::FILE *out = std::fopen(argv[3], "wb");
    if (!out)
        return 1;
    std::fwrite(&perm[0], sizeof(uint32_t), nodes, out);
    for (size_t v = 0; v < nodes; v++) {
        const uint32_t community = rabbit_order::trace_com(static_cast<uint32_t>(v), &graph);
        std::fwrite(&community, sizeof community, 1, out);
    }
    std::fclose(out);
    std::printf("%.6f\n", seconds);
    return 0;
}
