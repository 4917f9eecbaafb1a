#include "live/mend.h"

#include "live/edit.h"
#include "live/sums.h"

#define CREDIT UINT64_C(64)      /* entries */
#define SPIKE  UINT64_C(65536)   /* some 0.1 ms */
#define FIRST  UINT64_C(4194304) /* some 10 ms, the first time that a list of a base gets sums */

/* Make the sums of a list whole if that takes no more than `credit` entries; return how many it took. */
static uint64_t mend(ae_writer *w, uint32_t node, uint64_t credit) {
    const uint64_t head = ae_writer_head(w, node);
    if (!ae_place_is_large(ae_head_place(head)))
        return 0;
    ae_directory *d = ae_blocks_directory(w, head);
    const uint32_t blocks = ae_head_length(head) / AE_WEIGHT_SUMS_BLOCK;
    const uint32_t known = ae_sums_known(w, d), kept = known < blocks ? known : blocks;
    const uint64_t rest = (uint64_t)(blocks - kept) * AE_WEIGHT_SUMS_BLOCK;
    ae_edit e;
    const uint64_t most = ae_directory_summed(d)->sums || credit > FIRST ? credit : FIRST;
    const bool far = ae_ref_is_extent(ae_directory_leaves(d)[0]) && !ae_base_is_near(w->base);
    if (rest > most || far || ae_edit_open(w, node, AE_EDIT_DROPS, &e, NULL) || ae_edit_own(&e, NULL))
        return 0;
    d = ae_blocks_directory(w, e.head);
    if (!ae_sums_own(w, d, kept, blocks))
        return 0;
    const uint32_t made = ae_sums_make(w, d, kept, blocks);
    ae_directory_summed(d)->blocks = made == blocks ? AE_SUMMED_ALL : made;
    return rest;
}

void ae_mend(ae_writer *w) {
    const uint64_t earned = CREDIT * (w->num_touched + w->num_unsummed);
    uint64_t credit = earned > SPIKE ? earned : SPIKE;
    for (uint64_t i = 0; i < w->num_noted; i++) {
        const uint64_t took = mend(w, w->noted[i], credit);
        credit -= took < credit ? took : credit;
    }
}
