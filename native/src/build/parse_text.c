/*
 * Lines of plain integers, the common case of edge lists:
 *
 *   12,7\n          digits, one delimiter, digits, one line end (\n or \r\n)
 *   345,6789\n      empty lines are skipped
 *
 * Anything else (signs, blanks, quotes, comments, more or fewer fields, more than 18
 * digits) ends the parse: a slower reader that knows more takes the text then.
 */
#include <inttypes.h>

#include "aether/build.h"
#include "core/error.h"
#include "core/options.h"

#define MOST_DIGITS 18u /* always below 2^63 */

/* Parse the number at `at`; return the first byte behind its digits, or NULL. */
static inline const char *parse_number(const char *at, const char *end, int64_t *value) {
    const char *first = at;
    uint64_t number = 0;
    for (; at < end; at++) {
        unsigned digit = (unsigned)(unsigned char)*at - '0';
        if (digit > 9)
            break;
        number = number * 10 + digit;
    }
    *value = (int64_t)number;
    return at > first && at - first <= (ptrdiff_t)MOST_DIGITS ? at : NULL;
}

/* Return the bytes of the line end at `at`, which is not the end of the text; 0 if there is
 * none. */
static inline unsigned line_end_bytes(const char *at, const char *end) {
    if (*at == '\n')
        return 1;
    return *at == '\r' && end - at > 1 && at[1] == '\n' ? 2 : 0;
}

/* Parse a line into row `row`; return the next line, or NULL. */
static inline const char *parse_line(const char *at, const char *end, char delimiter, uint32_t num_columns,
                                     uint64_t room, uint64_t row, int64_t *out) {
    for (uint32_t column = 0; column < num_columns; column++) {
        if (column > 0 && (at == end || *at++ != delimiter))
            return NULL;
        at = parse_number(at, end, out + column * room + row);
        if (!at)
            return NULL;
    }
    if (at == end)
        return at;
    unsigned bytes = line_end_bytes(at, end);
    return bytes ? at + bytes : NULL;
}

int aether_parse_integers(const char *text, uint64_t text_size, const aether_integer_columns *columns,
                          uint64_t *num_rows, aether_error *err) {
    const char *at = text, *end = text + text_size;
    const aether_integer_columns *c = columns;
    uint64_t row = 0;
    *num_rows = 0;
    int rc = ae_options_check(c, sizeof *c, "aether_integer_columns", err);
    if (rc)
        return rc;
    if (c->num_columns == 0)
        return ae_error_at(err, AETHER_E_INVALID, 0, 0, "lines of no columns cannot be parsed");
    while (at < end) {
        unsigned bytes = line_end_bytes(at, end);
        const char *next = bytes ? at + bytes : NULL;
        if (!next && row < c->room) {
            next = parse_line(at, end, c->delimiter, c->num_columns, c->room, row, c->out);
            row++;
        }
        if (!next)
            return ae_error_at(err, AETHER_E_FORMAT, (int64_t)(at - text), 0,
                               "the line at byte %" PRIu64 " is not one of %" PRIu32 " plain integers",
                               (uint64_t)(at - text), c->num_columns);
        at = next;
    }
    *num_rows = row;
    return AETHER_OK;
}
