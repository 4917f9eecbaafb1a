#include "io/source.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "io/read.h"

/* ---- options -------------------------------------------------------------------- */

static int check_io_options(const aether_io_options *o, aether_error *err) {
    if (o->tier != AETHER_IO_AUTO && !ae_io_tier(o->tier))
        return ae_error_at(err, AETHER_E_INVALID, 0, o->tier, "there is no input tier %" PRIu32, o->tier);
    if (o->direct > 1)
        return ae_error_at(err, AETHER_E_INVALID, 0, o->direct, "direct is %" PRIu32 ", must be 0 or 1",
                           o->direct);
    if (o->depth > AE_IO_DEPTH_MAX)
        return ae_error_at(err, AETHER_E_INVALID, 0, o->depth,
                           "depth is %" PRIu32 ", must be 1 to %u, or 0 for the default", o->depth,
                           AE_IO_DEPTH_MAX);
    return AETHER_OK;
}

/* AETHERGRAPH_IO decides where the program leaves the tier open. */
static int tier_from_env(const ae_io_tier_ops **out, aether_error *err) {
    const char *text = getenv("AETHERGRAPH_IO");
    char names[128] = "auto";
    if (!text || !*text || strcmp(text, "auto") == 0)
        return AETHER_OK;
    *out = ae_io_tier_named(text);
    if (*out)
        return AETHER_OK;
    for (uint32_t i = 0, at = 4; ae_io_tier_at(i) && at < sizeof names; i++)
        at += (uint32_t)snprintf(names + at, sizeof names - at, ", %s", ae_io_tier_at(i)->name);
    return ae_error_set(err, AETHER_E_INVALID, "AETHERGRAPH_IO is '%s', must be one of: %s", text, names);
}

/* ---- tiers ---------------------------------------------------------------------- */

static int try_tier(aether_io *io, aether_error *err) {
    return io->tier == AE_IO_FALLBACK ? AETHER_OK : ae_io_try(io, err);
}

/* Unless a tier was asked for, take the first that can read this file. */
static int choose_tier(aether_io *io, const ae_io_tier_ops *wanted, aether_error *err) {
    io->forced = wanted != NULL;
    io->tier = wanted ? wanted : ae_io_tier_at(0);
    int rc = try_tier(io, err);
    for (uint32_t i = 1; rc && !wanted && ae_io_tier_at(i); i++) {
        ae_error_clear(err);
        io->tier = ae_io_tier_at(i);
        rc = try_tier(io, err);
    }
    return rc;
}

static int take_its_tier(const ae_io_source *source, const ae_io_tier_ops **tier, aether_error *err) {
    if (*tier && *tier != source->ops->tier)
        return ae_error_set(err, AETHER_E_UNSUPPORTED, "'%s' is read by %s, not by %s", source->name,
                            source->ops->tier->name, (*tier)->name);
    *tier = source->ops->tier;
    return AETHER_OK;
}

/* ---- opening ---------------------------------------------------------------------- */

int ae_io_open(const ae_io_source *source, const aether_io_options *options, aether_io **out,
               aether_error *err) {
    aether_io_options o = options ? *options : (aether_io_options){0};
    *out = NULL;
    const ae_io_tier_ops *wanted = ae_io_tier(o.tier);
    int rc = check_io_options(&o, err);
    if (!rc && source->ops->tier)
        rc = take_its_tier(source, &wanted, err);
    else if (!rc && !wanted)
        rc = tier_from_env(&wanted, err);
    if (rc)
        return rc;
    aether_io *io = calloc(1, sizeof *io);
    if (io)
        io->path = strdup(source->name);
    if (!io || !io->path) {
        free(io);
        return ae_error_set(err, AETHER_E_NO_MEMORY, "out of memory opening '%s'", source->name);
    }
    io->fd = -1;
    io->source = source->ops;
    io->state = source->state;
    io->alignment = io->memory_alignment = 1;
    io->depth = o.depth ? o.depth : AE_IO_DEPTH;
    rc = io->source->open(io, o.direct, err);
    rc = rc ? rc : choose_tier(io, wanted, err);
    memset(&io->stats, 0, sizeof io->stats); /* without the read of the trial */
    if (rc)
        aether_io_close(io);
    else
        *out = io;
    return rc;
}

int aether_io_open(const char *path, const aether_io_options *options, aether_io **out, aether_error *err) {
    return ae_io_open(&(ae_io_source){&ae_io_file_source, path, NULL}, options, out, err);
}

void aether_io_close(aether_io *io) {
    if (!io)
        return;
    io->source->close(io);
    free(io->path);
    free(io);
}

/* ---- probing -------------------------------------------------------------------------- */

int aether_io_probe(uint32_t tier, aether_error *err) {
    if (!ae_io_tier(tier))
        return ae_error_at(err, AETHER_E_INVALID, 0, tier, "there is no input tier %" PRIu32, tier);
    aether_io *io;
    int rc = aether_io_open("/proc/self/exe", &(aether_io_options){.tier = tier}, &io, err);
    aether_io_close(rc ? NULL : io);
    return rc;
}

/* ---- what it is and what it did ------------------------------------------------------ */

void aether_io_describe(const aether_io *io, aether_io_info *out) {
    *out = (aether_io_info){
        .tier = io->tier->number,
        .direct = io->direct,
        .depth = io->depth,
        .alignment = io->alignment,
        .memory_alignment = io->memory_alignment,
        .size = io->size,
    };
}

void aether_io_count(const aether_io *io, aether_io_stats *out) {
    *out = (aether_io_stats){
        .requests = atomic_load(&io->stats.requests),
        .reads = atomic_load(&io->stats.reads),
        .bytes = atomic_load(&io->stats.bytes),
        .copied = atomic_load(&io->stats.copied),
        .repeated = atomic_load(&io->stats.repeated),
        .max_in_flight = atomic_load(&io->stats.max_in_flight),
        .wait_ns = atomic_load(&io->stats.wait_ns),
    };
    for (uint32_t i = 0; i < AETHER_IO_SIZES; i++) {
        out->size_reads[i] = atomic_load(&io->stats.size_reads[i]);
        out->size_bytes[i] = atomic_load(&io->stats.size_bytes[i]);
    }
}
