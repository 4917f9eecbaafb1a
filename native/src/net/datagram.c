#include "net/datagram.h"

#include <string.h>

#include "core/error.h"
#include "log/crc32c.h"

static const uint8_t magic[4] = {'A', 'E', 'U', '1'};
enum { STREAM = 4, SEQUENCE = 8, ROWS = 16, CHECK = 20 };

static uint32_t datagram_checksum(const uint8_t *datagram, size_t size) {
    static const uint8_t zeros[sizeof(uint32_t)] = {0};
    uint32_t crc = ae_crc32c(0, datagram, CHECK);
    crc = ae_crc32c(crc, zeros, sizeof zeros);
    return ae_crc32c(crc, datagram + AE_DATAGRAM_HEAD, size - AE_DATAGRAM_HEAD);
}

bool ae_datagram_read(const uint8_t *datagram, size_t size, uint32_t row_bytes, aether_datagram *head) {
    if (size < AE_DATAGRAM_HEAD || memcmp(datagram, magic, sizeof magic) != 0)
        return false;
    uint32_t check;
    memcpy(&head->stream, datagram + STREAM, sizeof head->stream);
    memcpy(&head->sequence, datagram + SEQUENCE, sizeof head->sequence);
    memcpy(&head->rows, datagram + ROWS, sizeof head->rows);
    memcpy(&check, datagram + CHECK, sizeof check);
    return (uint64_t)head->rows * row_bytes == size - AE_DATAGRAM_HEAD &&
           check == datagram_checksum(datagram, size);
}

int aether_datagram_pack(const aether_datagram *head, const void *rows, uint64_t size, void *out,
                         uint64_t out_size, aether_error *err) {
    if (size > AETHER_DATAGRAM_MOST - AE_DATAGRAM_HEAD)
        return ae_error_at(err, AETHER_E_LIMIT, 0, (int64_t)size,
                           "a datagram with %llu bytes of rows: %d are the most", (unsigned long long)size,
                           AETHER_DATAGRAM_MOST - AE_DATAGRAM_HEAD);
    if (out_size != size + AE_DATAGRAM_HEAD)
        return ae_error_set(err, AETHER_E_INVALID, "%llu bytes for a datagram of %llu",
                            (unsigned long long)out_size, (unsigned long long)(size + AE_DATAGRAM_HEAD));
    uint8_t *datagram = out;
    memcpy(datagram, magic, sizeof magic);
    memcpy(datagram + STREAM, &head->stream, sizeof head->stream);
    memcpy(datagram + SEQUENCE, &head->sequence, sizeof head->sequence);
    memcpy(datagram + ROWS, &head->rows, sizeof head->rows);
    if (size)
        memcpy(datagram + AE_DATAGRAM_HEAD, rows, size);
    const uint32_t check = datagram_checksum(datagram, out_size);
    memcpy(datagram + CHECK, &check, sizeof check);
    return AETHER_OK;
}
