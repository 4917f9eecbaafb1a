/* The drawing of positions by itself: every branch of ae_uniform_draw and the
 * degrees and counts at which it changes branches, against sample_reference.h. */
#include "sample/draw/uniform.h"
#include "sample_reference.h"

#define START UINT64_C(7000000000) /* positions of real lists do not begin at 0 */
#define SPARE UINT64_C(0xABABABABABABABAB)
#define MOST  1100

static void check_draw(uint64_t degree, uint64_t count, bool replace, uint64_t stream, ae_scratch *set) {
    static uint64_t out[MOST + 1], wanted[MOST];
    aether_error err = {0};
    out[count] = SPARE;
    ae_list list = {START, degree};
    REQUIRE_OK(ae_uniform_draw(list, count, replace, stream, set, out, &err), err);
    CHECK_EQ(ref_positions(degree, (int64_t)count, replace, stream, wanted), count);
    for (uint64_t i = 0; i < count; i++)
        if (out[i] != START + wanted[i]) {
            TEST_FAIL("degree %" PRIu64 ", count %" PRIu64 ", draw %" PRIu64 " is %" PRIu64
                      ", expected %" PRIu64,
                      degree, count, i, out[i] - START, wanted[i]);
            return;
        }
    CHECK_EQ(out[count], SPARE);
}

/* One word holds the set up to degree 64, a filter with a scan behind it up to
 * 64 draws, a hash set beyond. Above degree 256 two positions may share a bit
 * of the filter: then the scan says that the second is new after all. */
TEST_ONE_THREAD(draws_match_the_reference_around_every_limit) {
    const uint64_t degrees[] = {1, 2, 8, 63, 64, 65, 66, 127, 128, 129, 255, 256, 257, 300, 1000, 100000};
    const uint64_t counts[] = {1, 2, 10, 62, 63, 64, 65, 66, 127, 128, 129, 299, 999, 1100};
    uint64_t state = 1;
    ae_scratch set = {0};
    for (size_t d = 0; d < sizeof degrees / sizeof *degrees; d++)
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
            for (int round = 0; round < 5; round++) {
                check_draw(degrees[d], counts[c], true, test_random(&state), &set);
                if (counts[c] < degrees[d])
                    check_draw(degrees[d], counts[c], false, test_random(&state), &set);
            }
    ae_scratch_free(&set);
}

/* Enough draws that a bias of the kind an off-by-one makes would show: every
 * position of a list is in the drawn set equally often. */
TEST_ONE_THREAD(every_position_is_drawn_equally_often) {
    const uint64_t shapes[][2] = {{20, 7}, {80, 7}, {80, 70}};
    for (size_t s = 0; s < 3; s++) {
        enum { ROUNDS = 20000 };
        uint64_t times[80] = {0}, out[80], state = s;
        ae_scratch set = {0};
        ae_list list = {0, shapes[s][0]};
        for (int round = 0; round < ROUNDS; round++) {
            CHECK_OK(ae_uniform_draw(list, shapes[s][1], false, test_random(&state), &set, out, NULL),
                     (aether_error){0});
            for (uint64_t i = 0; i < shapes[s][1]; i++)
                times[out[i]]++;
        }
        double p = (double)shapes[s][1] / (double)shapes[s][0];
        for (uint64_t i = 0; i < list.degree; i++) {
            double off = (double)times[i] - ROUNDS * p; /* 6 standard deviations */
            CHECK(off * off < 36 * ROUNDS * p * (1 - p));
        }
        ae_scratch_free(&set);
    }
}

TEST_ONE_THREAD(counts_follow_the_fanout) {
    CHECK_EQ(ae_uniform_count(-1, 9, false), 9);
    CHECK_EQ(ae_uniform_count(-1, 9, true), 9);
    CHECK_EQ(ae_uniform_count(0, 9, true), 0);
    CHECK_EQ(ae_uniform_count(8, 9, false), 8);
    CHECK_EQ(ae_uniform_count(10, 9, false), 9);
    CHECK_EQ(ae_uniform_count(10, 9, true), 10);
    CHECK_EQ(ae_uniform_count(10, 0, true), 0);
    CHECK_EQ(ae_uniform_count(INT64_MAX, 1, true), INT64_MAX);
}

/* Whole vectors are written, but never past `room`. */
TEST_ONE_THREAD(whole_lists_stay_within_their_room) {
    for (uint64_t degree = 1; degree <= 40; degree++)
        for (uint64_t room = degree; room <= degree + 20; room++) {
            uint64_t out[61];
            out[room] = SPARE;
            ae_uniform_all((ae_list){START, degree}, out, room);
            for (uint64_t i = 0; i < degree; i++)
                CHECK_EQ(out[i], START + i);
            CHECK_EQ(out[room], SPARE);
        }
}

TEST_MAIN()
