/*
 * os/advise.h - letting go of mapped pages.
 *
 *   file mapping  | pages in this process |  --let go-->  | pages in the page cache, if there is room |
 *
 * Caveats: for shared mappings of files alone, which are read again from the page cache; of other memory the
 * content would be lost.
 */
#ifndef AE_OS_ADVISE_H
#define AE_OS_ADVISE_H

#include <stdint.h>

/* Let go of the pages of a shared mapping of a file that lie wholly in a range. */
void ae_os_let_go(const void *data, uint64_t size);

#endif
