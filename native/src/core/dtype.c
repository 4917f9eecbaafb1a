#include "core/dtype.h"

typedef struct {
    uint32_t size;
    const char *name;
} dtype_info;

static const dtype_info dtype_table[AE_DTYPE_COUNT] = {
    [AETHER_U8] = {1, "uint8"},      [AETHER_BOOL] = {1, "bool"},   [AETHER_I8] = {1, "int8"},
    [AETHER_I16] = {2, "int16"},     [AETHER_I32] = {4, "int32"},   [AETHER_I64] = {8, "int64"},
    [AETHER_U32] = {4, "uint32"},    [AETHER_U64] = {8, "uint64"},  [AETHER_F16] = {2, "float16"},
    [AETHER_BF16] = {2, "bfloat16"}, [AETHER_F32] = {4, "float32"}, [AETHER_F64] = {8, "float64"},
};

uint32_t aether_dtype_size(uint32_t dtype) {
    return dtype < AE_DTYPE_COUNT ? dtype_table[dtype].size : 0;
}

const char *ae_dtype_name(uint32_t dtype) {
    const char *name = dtype < AE_DTYPE_COUNT ? dtype_table[dtype].name : 0;
    return name ? name : "unknown";
}
