/*
 * net/datagram.h - rows in a datagram, as UdpSource's senders pack them.
 *
 *   0 magic "AEU1"   4 u32 stream   8 u64 sequence   16 u32 rows   20 u32 CRC-32C   24 rows
 *
 * Little-endian. The checksum is that of the whole datagram with zeros in its place. A stream
 * numbers its datagrams from 0; what is lost, late or doubled is for the reader of the numbers.
 */
#ifndef AE_NET_DATAGRAM_H
#define AE_NET_DATAGRAM_H

#include <stdbool.h>

#define AETHER_EXPERIMENTAL
#include "aether/experimental.h"

enum { AE_DATAGRAM_HEAD = 24 };

/* Fill `head` from a datagram of `size` bytes; false if it is damaged, or does not hold the whole
 * rows of `row_bytes` that it announces. Its rows follow the head. */
bool ae_datagram_read(const uint8_t *datagram, size_t size, uint32_t row_bytes, aether_datagram *head);

#endif
