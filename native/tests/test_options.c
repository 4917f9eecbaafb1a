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

TEST_MAIN()
