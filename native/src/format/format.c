#include "format/format.h"

#include <stddef.h>

#include "core/dtype.h"

#define BIT(dtype) (1u << AETHER_##dtype)
#define ANY        (((1u << AE_DTYPE_COUNT) - 1) & ~1u)

static const struct {
    const char *name;
    uint32_t dtypes; /* bit set of those allowed */
} kinds[] = {
    [AETHER_SECTION_META] = {"meta", BIT(U8)},
    [AETHER_SECTION_CSC_INDPTR] = {"csc_indptr", BIT(U64)},
    [AETHER_SECTION_CSC_INDICES] = {"csc_indices", BIT(U32) | BIT(U64)},
    [AETHER_SECTION_CSR_INDPTR] = {"csr_indptr", BIT(U64)},
    [AETHER_SECTION_CSR_INDICES] = {"csr_indices", BIT(U32) | BIT(U64)},
    [AETHER_SECTION_CSR_EDGE_IDS] = {"csr_edge_ids", BIT(U32) | BIT(U64)},
    [AETHER_SECTION_EDGE_ORDER] = {"edge_order", BIT(U32) | BIT(U64)},
    [AETHER_SECTION_EDGE_WEIGHT] = {"edge_weight", BIT(F32) | BIT(F64)},
    [AETHER_SECTION_EDGE_TIME] = {"edge_time", BIT(I64) | BIT(F64)},
    [AETHER_SECTION_NODE_TIME] = {"node_time", BIT(I64) | BIT(F64)},
    [AETHER_SECTION_ARRAY] = {"array", ANY},
    [AETHER_SECTION_CSC_BLOCKS] = {"csc_blocks", BIT(U8)},
    [AETHER_SECTION_CSC_INDEX] = {"csc_index", BIT(U64)},
    [AETHER_SECTION_CSR_BLOCKS] = {"csr_blocks", BIT(U8)},
    [AETHER_SECTION_CSR_INDEX] = {"csr_index", BIT(U64)},
    [AETHER_SECTION_KEY_HASHES] = {"key_hashes", BIT(U64)},
    [AETHER_SECTION_KEY_BUCKETS] = {"key_buckets", BIT(U64)},
    [AETHER_SECTION_KEY_IDS] = {"key_ids", BIT(U32) | BIT(U64)},
    [AETHER_SECTION_KEY_PLACES] = {"key_places", BIT(U32) | BIT(U64)},
    [AETHER_SECTION_KEY_OFFSETS] = {"key_offsets", BIT(U64)},
    [AETHER_SECTION_KEY_BYTES] = {"key_bytes", BIT(U8)},
};

#define NUM_KINDS (sizeof kinds / sizeof kinds[0])

bool ae_format_kind_known(uint32_t kind) {
    return kind < NUM_KINDS && kinds[kind].name;
}

const char *ae_format_kind_name(uint32_t kind) {
    return ae_format_kind_known(kind) ? kinds[kind].name : "unknown";
}

uint64_t ae_format_required(uint32_t kind) {
    return kind >= AETHER_SECTION_CSC_BLOCKS && kind <= AETHER_SECTION_CSR_INDEX ? AE_FORMAT_COMPRESSED : 0;
}

bool ae_format_dtype_fits(uint32_t kind, uint32_t dtype) {
    if (!ae_format_kind_known(kind))
        return true;
    return dtype < AE_DTYPE_COUNT && (kinds[kind].dtypes >> dtype & 1);
}
