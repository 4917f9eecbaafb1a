/* Plain integers in text, and where the parse has to end. */
#include <string.h>

#include "test.h"

#define ROOM 8

static int parse(const char *text, uint32_t columns, int64_t *out, uint64_t *rows, aether_error *err) {
    return aether_parse_integers(text, strlen(text),
                                 AE_SIZED(aether_integer_columns, out, ROOM, columns, ','), rows, err);
}

TEST_ONE_THREAD(plain_lines) {
    aether_error err;
    int64_t out[3 * ROOM];
    uint64_t rows;
    REQUIRE_OK(parse("12,7\n0,999999999999999999\r\n\n\r\n007,3", 2, out, &rows, &err), err);
    CHECK_EQ(rows, 3);
    CHECK(out[0] == 12 && out[1] == 0 && out[2] == 7);
    CHECK(out[ROOM] == 7 && out[ROOM + 1] == 999999999999999999 && out[ROOM + 2] == 3);
    REQUIRE_OK(parse("5\n6\n", 1, out, &rows, &err), err);
    CHECK(rows == 2 && out[0] == 5 && out[1] == 6);
    REQUIRE_OK(parse("1,2,3", 3, out, &rows, &err), err);
    CHECK(rows == 1 && out[0] == 1 && out[ROOM] == 2 && out[2 * ROOM] == 3);
    REQUIRE_OK(parse("", 2, out, &rows, &err), err);
    CHECK_EQ(rows, 0);
}

TEST_ONE_THREAD(anything_else_is_left) {
    static const char *const lines[] = {
        "1",
        "1,",
        "1,2,3",
        ",2",
        "1,-2",
        "+1,2",
        "1, 2",
        "1,2 ",
        "1,\"2",
        "1,2\rx,2",
        "#1,2",
        "1;2",
        "1,2.0",
        "a,b",
        "1,,2",
        "\r",
        "1,2\r",
        "0x1,2",
        "1,1000000000000000000",
        "1,99999999999999999999999",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        char text[64] = "1,2\n";
        aether_error err;
        int64_t out[2 * ROOM];
        uint64_t rows;
        CHECK_EQ(parse(strcat(text, lines[i]), 2, out, &rows, &err), AETHER_E_FORMAT);
        CHECK_EQ(err.position, 4);
        CHECK_EQ(rows, 0);
    }
}

TEST_ONE_THREAD(no_more_lines_than_there_is_room_for) {
    aether_error err;
    int64_t out[ROOM];
    uint64_t rows;
    REQUIRE_OK(parse("1\n2\n3\n4\n5\n6\n7\n8\n\n", 1, out, &rows, &err), err);
    CHECK_EQ(rows, ROOM);
    CHECK_EQ(parse("1\n2\n3\n4\n5\n6\n7\n8\n9\n", 1, out, &rows, &err), AETHER_E_FORMAT);
    CHECK_EQ(parse("1", 0, out, &rows, &err), AETHER_E_INVALID);
}

TEST_MAIN()
