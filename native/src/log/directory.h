/*
 * log/directory.h - the files of a log.
 *
 *   wal-<first lsn>.log    a segment; 16 hex digits
 *   wal-<first lsn>.free   one that is no longer needed, to be used again
 *   wal.new, wal.spare     one that is being filled with zeros
 *   NEWEST                 the 16 hex digits of the newest segment that was begun and not recycled
 *
 *   begin     take a .free, or fill wal.new and sync it; write the header, sync
 *             -> rename to .log -> sync the directory -> replace NEWEST, sync the directory
 *   cut       at the end of a session: what is behind the last frame becomes a hole
 *   recycle   of the newest: remove NEWEST, sync the directory; then rename .log to .free, or
 *             remove one with a hole -> sync the directory
 *
 * Writing over blocks that were written before changes no metadata: a sync waits for the data
 * alone, and the disk can only be full when a segment begins. A file has its name .log only once
 * it is whole and on disk. NEWEST tells a log whose files were taken away from one that never had
 * any: it names no segment before that is there, and none behind that has a commit. Its name is unlike
 * theirs, since what takes segments away (`rm wal*`, cleaners of *.log) should not take it, too.
 *
 * What is somebody else's, as its header says, is neither deleted nor used, whatever its name.
 *
 * Caveats: for one process at a time, which the owner of the directory sees to.
 */
#ifndef AE_LOG_DIRECTORY_H
#define AE_LOG_DIRECTORY_H

#include "log/segment.h"

#define AE_LOG_MAX_FREE 2 /* files kept for later; more are deleted */
#define AE_LOG_MAX_IDLE 1 /* those kept while nobody has the log open */

typedef struct ae_log_directory {
    int fd;
    char *path;
} ae_log_directory;

int ae_log_directory_open(const char *path, ae_log_directory *out, aether_error *err);
void ae_log_directory_close(ae_log_directory *dir);
/* Have the disk know which files are in it. */
int ae_log_directory_sync(const ae_log_directory *dir, aether_error *err);

/* List the first lsn of every segment, ascending; *lsns is to be freed. */
int ae_log_list_segments(const ae_log_directory *dir, uint64_t **lsns, uint64_t *count, aether_error *err);

/* Return AETHER_E_CORRUPT if the newest segment is missing. A writer may go on meanwhile. */
int ae_log_check_newest(const ae_log_directory *dir, aether_error *err);
/* Forget which segment is the newest, before it goes. */
int ae_log_forget_newest(const ae_log_directory *dir, aether_error *err);

/* Begin the segment of a sealed header; *out is open for writing. */
int ae_log_begin_segment(const ae_log_directory *dir, const ae_log_header *header, int *out,
                         aether_error *err);

/* A file that is being filled to be taken by a segment that begins later. */
typedef struct ae_log_spare {
    int fd; /* -1: none is */
    uint64_t end;
} ae_log_spare;

/* Go on filling a spare file, for some milliseconds; begin one if no free file is there. Return false once
 * there is nothing left to do: it is there, or it cannot be filled. Beside other functions, but not
 * beside itself. */
bool ae_log_fill_some(const ae_log_directory *dir, uint64_t size, ae_log_spare *spare);
/* Give up a file that is being filled. */
void ae_log_drop_spare(const ae_log_directory *dir, ae_log_spare *spare);

/* Delete what a process that was killed was filling. */
void ae_log_remove_unfinished(const ae_log_directory *dir);
/* Delete files that are kept for later, but for a few. */
void ae_log_trim_free(const ae_log_directory *dir, const uint8_t graph[16], uint64_t keep);

/* Give the disk back what an open segment of `size` bytes has behind `end`; it reads as zeros from then on.
 * Does nothing where the file system cannot. */
void ae_log_cut_unused(int fd, uint64_t end, uint64_t size);

/* Put a segment of the graph's log aside, to be used again; or remove it, if enough are there or it was cut.
 * A file that only has the name of one is left alone. */
int ae_log_recycle_segment(const ae_log_directory *dir, const uint8_t graph[16], uint64_t first_lsn,
                           aether_error *err);

/* Open a segment for reading, and for writing if `writes`. */
int ae_log_open_segment(const ae_log_directory *dir, uint64_t first_lsn, bool writes, int *fd,
                        aether_error *err);

/* Write the path of a segment, for messages. */
void ae_log_segment_path(const ae_log_directory *dir, uint64_t first_lsn, char *path, uint64_t room);

#endif
