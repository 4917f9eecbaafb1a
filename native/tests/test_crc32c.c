/* CRC-32C: known values, and the processor's instruction against the table and against single bits. */
#include "log/crc32c.h"
#include "test.h"

/* The definition: one bit after the other. */
static uint32_t by_bits(const uint8_t *bytes, size_t size) {
    uint32_t crc = ~0u;
    for (size_t i = 0; i < size; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78u : 0);
    }
    return ~crc;
}

static void check_both(const void *data, size_t size, uint32_t expected) {
    CHECK_EQ(ae_crc32c(0, data, size), expected);
    CHECK_EQ(ae_crc32c_portable(0, data, size), expected);
}

/* RFC 3720, appendix B.4, and the check value of the catalogues. */
TEST_ONE_THREAD(known_values) {
    uint8_t bytes[32];
    check_both("", 0, 0);
    check_both("123456789", 9, 0xE3069283u);
    memset(bytes, 0, 32);
    check_both(bytes, 32, 0x8A9136AAu);
    memset(bytes, 0xFF, 32);
    check_both(bytes, 32, 0x62A8AB43u);
    for (unsigned i = 0; i < 32; i++)
        bytes[i] = (uint8_t)i;
    check_both(bytes, 32, 0x46DD794Eu);
    for (unsigned i = 0; i < 32; i++)
        bytes[i] = (uint8_t)(31 - i);
    check_both(bytes, 32, 0x113FDB5Cu);
}

TEST_ONE_THREAD(every_length_start_and_cut) {
    uint8_t bytes[300];
    uint64_t state = 1;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)test_random(&state);
    for (size_t start = 0; start < 8; start++)
        for (size_t size = 0; size <= 200; size++) {
            uint32_t expected = by_bits(bytes + start, size);
            check_both(bytes + start, size, expected);
            size_t cut = size ? (size_t)test_random(&state) % size : 0;
            CHECK_EQ(ae_crc32c(ae_crc32c(0, bytes + start, cut), bytes + start + cut, size - cut), expected);
        }
}

TEST_MAIN()
