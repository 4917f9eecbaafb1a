/* core/options.c: structs that begin with their size, of this header, of an older and of a newer one. */
#include "test.h"

typedef struct newer {
    uint64_t size, field, later;
} newer;

static int check(uint64_t size, uint64_t later, aether_error *err) {
    return ae_options_check(&(newer){size, 7, later}, 16, "aether_things", err);
}

TEST_ONE_THREAD(struct_of_this_header_is_taken) {
    aether_error err = {0};
    CHECK_OK(check(16, 1, &err), err); /* what is behind it is not looked at */
}

TEST_ONE_THREAD(struct_of_an_older_header_is_refused) {
    aether_error err = {0};
    CHECK_EQ(check(0, 0, &err), AETHER_E_INVALID);
    CHECK_HAS(err.message,
              "aether_things.size = 0, and the library's has 16 bytes: set it to sizeof(aether_things)");
    CHECK_EQ(check(8, 0, &err), AETHER_E_INVALID);
    CHECK_EQ(check(UINT64_MAX, 0, &err), AETHER_E_INVALID); /* never set */
    CHECK_EQ(ae_options_check(NULL, 16, "aether_things", &err), AETHER_E_INVALID);
    CHECK_HAS(err.message, "a pointer to aether_things is NULL");
}

TEST_ONE_THREAD(struct_of_a_newer_header_has_zeros_behind) {
    aether_error err = {0};
    CHECK_OK(check(24, 0, &err), err);
    CHECK_EQ(check(24, 1, &err), AETHER_E_UNSUPPORTED);
    CHECK_HAS(err.message, "aether_things has a field beyond byte 16, which this library");
}

#define ZERO(type) (&(type){0})
#define REFUSES(type, call)                                                                                  \
    do {                                                                                                     \
        CHECK_EQ(call, AETHER_E_INVALID);                                                                    \
        CHECK_HAS(err.message, #type ".size = 0, and the library's has ");                                   \
    } while (0)

TEST_ONE_THREAD(functions_look_at_the_size_before_anything_else) {
    aether_error err = {0};
    aether_sampler *s = NULL;
    aether_topology *t = NULL;
    aether_group *g = NULL;
    aether_list_place at = {0, 0};
    uint64_t count = 0;
    const aether_schema *schema = ZERO(aether_schema);
    const aether_sample_arrays *arrays = ZERO(aether_sample_arrays);
    const aether_records *records = ZERO(aether_records);
    REFUSES(aether_sample_arrays, aether_sample_export(s, arrays, &err));
    REFUSES(aether_sample_arrays, aether_sample_export_nodes(s, 0, arrays, &err));
    REFUSES(aether_sample_arrays, aether_sample_export_edges(s, 0, arrays, &err));
    REFUSES(aether_schema, aether_sampler_create_typed(schema, &s, &err));
    REFUSES(aether_schema, aether_sampler_retarget(s, schema, &err));
    REFUSES(aether_schema, aether_group_create(schema, NULL, &g, &err));
    REFUSES(aether_schema, aether_sample_contexts(schema, NULL, NULL, NULL, &err));
    REFUSES(aether_list_request, aether_topology_neighbors(t, ZERO(aether_list_request), NULL, &err));
    REFUSES(aether_entry_columns,
            aether_topology_read(t, ZERO(aether_entry_columns), &at, &count, NULL, &err));
    REFUSES(aether_edge_search, aether_find_edges(t, ZERO(aether_edge_search), &count, NULL, &err));
    REFUSES(aether_fanout_options, aether_fanout(t, NULL, 0, ZERO(aether_fanout_options), NULL, NULL, &err));
    REFUSES(aether_row_request, aether_gather(NULL, ZERO(aether_row_request), NULL, &err));
    REFUSES(aether_row_request, aether_row_gather(NULL, ZERO(aether_row_request), NULL, &err));
    REFUSES(aether_lists_in_file,
            aether_topology_create_paged(NULL, ZERO(aether_lists_in_file), NULL, &t, &err));
    REFUSES(aether_slots, aether_slots_take(NULL, ZERO(aether_slots), &count, &err));
    REFUSES(aether_edge_list, aether_build_lists(ZERO(aether_edge_list), NULL, NULL, &err));
    REFUSES(aether_built_lists,
            aether_build_lists(AE_SIZED(aether_edge_list, 0), ZERO(aether_built_lists), NULL, &err));
    REFUSES(aether_edge_run, aether_hash_edges(ZERO(aether_edge_run), 0, 1, &count, NULL, &err));
    REFUSES(aether_integer_columns, aether_parse_integers("", 0, ZERO(aether_integer_columns), &count, &err));
    REFUSES(aether_encoding, aether_encode_blocks(ZERO(aether_encoding), &count, NULL, &err));
    REFUSES(aether_items, aether_hash_items(ZERO(aether_items), NULL, NULL, 0, &count, &err));
    REFUSES(aether_record_columns, aether_records_pack(ZERO(aether_record_columns), NULL, 0, &err));
    REFUSES(aether_records, aether_records_partition(records, NULL, NULL, NULL, NULL, &err));
    REFUSES(aether_records, aether_records_order(records, NULL, NULL, NULL, &err));
    REFUSES(aether_order_part, aether_order_degrees(ZERO(aether_order_part), NULL, &count, NULL, &err));
    REFUSES(aether_order_part, aether_order_fill(ZERO(aether_order_part), 0, NULL, NULL, NULL, &err));
    REFUSES(aether_rabbit_order,
            aether_order_rabbit(NULL, NULL, 0, NULL, ZERO(aether_rabbit_order), NULL, &err));
}

TEST_ONE_THREAD(counts_of_a_sample_have_a_size) {
    const uint64_t indptr[] = {0, 1};
    const uint32_t ids[] = {0};
    const int64_t seed = 0, fanout = 1;
    const aether_lists lists = {
        .num_major = 1, .num_minor = 1, .num_edges = 1, .indptr = indptr, .indices = ids, .id_bytes = 4};
    const aether_sample_options options = {.fanouts = &fanout, .num_hops = 1, .num_threads = 1};
    const aether_seeds seeds = {.ids = &seed, .count = 1};
    const aether_hgt_options hgt = {.num_samples = &fanout, .num_hops = 1};
    aether_error err = {0};
    aether_topology *t = NULL;
    aether_sampler *s = NULL;
    REQUIRE_OK(aether_topology_create(&lists, &t, &err), err);
    REQUIRE_OK(aether_sampler_create(t, &s, &err), err);
    const aether_sample_counts *counts = ZERO(aether_sample_counts);
    REFUSES(aether_sample_counts, aether_sample(s, &seed, 1, &options, counts, &err));
    REFUSES(aether_sample_counts, aether_sample_typed(s, &seeds, &options, counts, &err));
    REFUSES(aether_sample_counts, aether_sample_hgt(s, &seeds, &hgt, counts, &err));
    aether_sampler_destroy(s);
    aether_topology_destroy(t);
}

TEST_MAIN()
