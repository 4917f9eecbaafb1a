/*
 * format/container.h - an open file: a mapping and the table of its sections.
 *
 *   aether_file
 *     path
 *     map ------------> [ header | section 0 | section 1 | ... | table ]
 *     sections[i] ----------------^ offset, size, kind, owner, dtype, checksum
 *
 * Opening reads header and table into memory of its own, checks them, and maps
 * the file only then: a checked header and table cannot change afterwards. Contents of
 * sections are not read; aether_file_verify() does that.
 *
 * Caveats: sections of a kind not known here are kept and listed; readers skip
 * them. A raw file (aether_file_map_raw) has content 0 and no sections.
 */
#ifndef AE_FORMAT_CONTAINER_H
#define AE_FORMAT_CONTAINER_H

#include "aether.h"
#include "os/mapping.h"

struct aether_file {
    char *path; /* for messages */
    ae_mapping map;
    uint32_t content;
    uint32_t num_sections;
    aether_section *sections;
};

#endif
