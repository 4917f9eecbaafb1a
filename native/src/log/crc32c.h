/*
 * log/crc32c.h - CRC-32C (Castagnoli), the checksum of the log.
 *
 *   polynomial 0x1EDC6F41, bits reflected, all ones before and after, as in RFC 3720
 *   crc("123456789") = 0xE3069283
 *
 * On x86-64 the processor's own instruction computes it, 8 bytes at a time; where that is
 * missing, and on other machines, a table of 256 entries does, one byte at a time.
 */
#ifndef AE_LOG_CRC32C_H
#define AE_LOG_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Return the checksum of some bytes that follow those whose checksum is `crc` (0 for none). */
uint32_t ae_crc32c(uint32_t crc, const void *data, size_t size);

/* Return the same without the processor's instruction. */
uint32_t ae_crc32c_portable(uint32_t crc, const void *data, size_t size);

#endif
