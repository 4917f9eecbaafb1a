#include "core/options.h"

#include <inttypes.h>
#include <string.h>

#include "core/error.h"

#define MOST 4096 /* bytes that no such struct will ever have */

int ae_options_check(const void *options, uint64_t known, const char *type, aether_error *err) {
    uint64_t size;
    if (!options)
        return ae_error_set(err, AETHER_E_INVALID, "a pointer to %s is NULL", type);
    memcpy(&size, options, sizeof size);
    if (size < known || size > MOST)
        return ae_error_set(err, AETHER_E_INVALID,
                            "%s.size = %" PRIu64 ", and the library's has %" PRIu64
                            " bytes: set it to sizeof(%s)",
                            type, size, known, type);
    for (uint64_t i = known; i < size; i++)
        if (((const char *)options)[i])
            return ae_error_set(
                err, AETHER_E_UNSUPPORTED,
                "%s has a field beyond byte %" PRIu64
                ", which this library (%s) does not know: leave it zero, or update the library",
                type, known, aether_version());
    return AETHER_OK;
}
