#include "sample/walk/walkers.h"

#include <inttypes.h>

#include "core/error.h"

int ae_walk_bad_place(const ae_walkers *l, uint64_t i, uint64_t place, aether_error *err) {
    return ae_error_at(err, AETHER_E_CORRUPT, (int64_t)l->node[i], (int64_t)place,
                       "the list of node %" PRIu64 " has changed since its weights were read", l->node[i]);
}
