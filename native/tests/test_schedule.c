/* What a cache keeps when the future is known: against Belady by searching, loans, forks. */
#include <sys/wait.h>

#include "cache/schedule.h"
#include "test.h"

#define FRAME 64u /* bytes */
#define KEYS  40u
#define LISTS 12u

static ae_cache *make(uint64_t frames) {
    ae_cache *c;
    aether_error err = {0};
    CHECK_OK(ae_cache_create(ae_cache_bytes(frames, FRAME), FRAME, &c, &err), err);
    return c;
}

typedef struct {
    uint64_t key[LISTS * KEYS], ends[LISTS], sorted[LISTS * KEYS];
    ae_cache_step steps[LISTS * KEYS];
} trace;

static void make_trace(trace *t, uint64_t seed) {
    uint64_t n = 0;
    for (uint64_t list = 0; list < LISTS; list++) {
        for (uint64_t k = test_random(&seed) % KEYS; k; k--)
            t->key[n++] = test_random(&seed) % KEYS >> test_random(&seed) % 3;
        t->ends[list] = n;
    }
    for (uint64_t i = 0; i < n; i++) { /* by insertion */
        uint64_t value = t->key[i] << 10 | i, at = i;
        for (; at && t->sorted[at - 1] > value; at--)
            t->sorted[at] = t->sorted[at - 1];
        t->sorted[at] = value;
    }
}

/* When a key is asked for after a list; LISTS: not again. */
static uint64_t next_list(const trace *t, uint64_t key, uint64_t list) {
    for (uint64_t i = t->ends[list]; i < t->ends[LISTS - 1]; i++)
        if (t->key[i] == key)
            for (uint64_t l = list + 1; l < LISTS; l++)
                if (i < t->ends[l])
                    return l;
    return LISTS;
}

/* Keys read by the optimum: all that was seen stays, then the farthest go. */
static uint64_t belady(const trace *t, uint64_t room, bool *there) {
    uint64_t reads = 0;
    for (uint64_t list = 0, i = 0; list < LISTS; list++) {
        for (; i < t->ends[list]; i++) {
            reads += !there[t->key[i]];
            there[t->key[i]] = true;
        }
        for (;;) {
            uint64_t held = 0, farthest = 0, victim = 0;
            for (uint64_t key = 0; key < KEYS; key++) {
                uint64_t when = there[key] ? next_list(t, key, list) : 0;
                held += there[key];
                if (there[key] && when >= farthest) {
                    farthest = when;
                    victim = key;
                }
            }
            if (held <= room)
                break;
            there[victim] = false;
        }
    }
    return reads;
}

/* Do what the steps say; every key that is found is where it is said to be. */
static uint64_t follow(ae_cache_loan *loan, const trace *t) {
    uint64_t reads = 0;
    for (uint64_t list = 0, begin = 0; list < LISTS; begin = t->ends[list++]) {
        for (uint64_t i = begin; i < t->ends[list]; i++) {
            if (t->steps[i].what != AE_STEP_FOUND)
                continue;
            uint64_t held;
            memcpy(&held, ae_cache_loan_frame(loan, t->steps[i].value), sizeof held);
            CHECK_EQ(held, t->key[i]);
            CHECK_EQ(ae_cache_loan_find(loan, t->key[i]), t->steps[i].value);
            ae_cache_loan_use(loan, t->steps[i].value, (uint32_t)list);
        }
        for (uint64_t i = begin; i < t->ends[list]; i++) {
            bool again = false;
            for (uint64_t k = begin; k < i; k++)
                again = again || t->key[k] == t->key[i];
            reads += !again && t->steps[i].what != AE_STEP_FOUND;
            if (again || t->steps[i].what != AE_STEP_KEPT)
                continue;
            uint64_t frame[FRAME / 8] = {t->key[i]};
            const void *data = frame;
            uint32_t into = t->steps[i].value;
            ae_cache_loan_put(loan, &t->key[i], &into, &data, 1, (uint32_t)list);
        }
    }
    return reads;
}

static bool is_there(ae_cache *c, uint64_t key) {
    ae_cache_reader r;
    ae_cache_enter(c, &r);
    const uint64_t *frame = ae_cache_find(&r, key);
    CHECK(!frame || *frame == key);
    ae_cache_leave(&r);
    return frame != NULL;
}

static void compare(uint64_t frames, uint64_t seed) {
    aether_error err;
    ae_cache *c = make(frames);
    ae_cache_stats s;
    ae_cache_count(c, &s);
    for (int round = 0; round < 3; round++) { /* the later ones begin with what is there */
        trace t;
        bool there[KEYS];
        ae_cache_loan loan;
        uint64_t reads, expected;
        make_trace(&t, seed + (uint64_t)round);
        for (uint64_t key = 0; key < KEYS; key++)
            there[key] = is_there(c, key);
        expected = belady(&t, s.frames, there);
        CHECK_OK(ae_cache_loan_begin(c, &loan, &err), err);
        ae_cache_wishes w = {t.sorted, t.ends[LISTS - 1], 10, t.ends, LISTS};
        CHECK_OK(ae_cache_schedule(&loan, &w, t.steps, &reads, &err), err);
        CHECK_EQ(reads, expected);
        CHECK_EQ(follow(&loan, &t), expected);
        CHECK(!is_there(c, t.key[0])); /* lent */
        ae_cache_loan_end(&loan);
    }
    ae_cache_count(c, &s);
    uint64_t held = 0;
    for (uint64_t key = 0; key < KEYS; key++)
        held += is_there(c, key);
    CHECK_EQ(held, s.held);
    CHECK_EQ(s.inserted - s.evicted, s.held);
    ae_cache_destroy(c);
}

TEST_ONE_THREAD(no_cache_reads_less) {
    for (uint64_t seed = 0; seed < 60; seed++)
        compare(1 + seed % 7 * 6, seed * 10 + 1);
}

TEST_ONE_THREAD(a_cache_goes_on_after_a_loan) {
    ae_cache *c = make(60);
    ae_cache_loan loan;
    aether_error err;
    uint64_t frame[FRAME / 8] = {0};
    const void *data = frame;
    uint64_t *pinned = ae_cache_pin(c, 1000);
    REQUIRE(pinned);
    *pinned = 1000;
    for (uint64_t key = 0; key < 500; key++) {
        if (key % 50 == 0) {
            CHECK_OK(ae_cache_loan_begin(c, &loan, &err), err);
            ae_cache_put(c, &key, &data, 1); /* does nothing */
            CHECK(!is_there(c, key));
            CHECK(is_there(c, 1000));
            ae_cache_loan_end(&loan);
        }
        frame[0] = key;
        ae_cache_put(c, &key, &data, 1);
        CHECK(is_there(c, key));
    }
    ae_cache_stats s;
    ae_cache_count(c, &s);
    CHECK_EQ(s.held, s.frames);
    ae_cache_destroy(c);
}

TEST_ONE_THREAD(one_has_the_loan) {
    ae_cache *c = make(10);
    ae_cache_loan first, second;
    aether_error err;
    CHECK_OK(ae_cache_loan_begin(c, &first, &err), err);
    CHECK_OK(ae_cache_loan_begin(c, &second, &err), err);
    CHECK(first.end > first.first);
    CHECK_EQ(second.end, second.first);
    ae_cache_loan_end(&second);
    CHECK_OK(ae_cache_loan_begin(c, &second, &err), err);
    CHECK_EQ(second.end, second.first);
    ae_cache_loan_end(&first);
    ae_cache_loan_end(&second);
    ae_cache_destroy(c);
}

TEST_ONE_THREAD(a_forked_child_has_no_loan) {
    ae_cache *c = make(10);
    ae_cache_loan loan, own;
    aether_error err;
    CHECK_OK(ae_cache_loan_begin(c, &loan, &err), err);
    pid_t child = fork();
    if (child == 0) {
        bool right = ae_cache_loan_inherited(&loan);
        right = right && !ae_cache_loan_begin(c, &own, &err) && own.end > own.first;
        ae_cache_loan_end(&loan); /* changes nothing */
        right = right && !is_there(c, 1);
        ae_cache_loan_end(&own);
        _exit(right ? 0 : 1);
    }
    int status;
    waitpid(child, &status, 0);
    CHECK_EQ(status, 0);
    CHECK(!ae_cache_loan_inherited(&loan));
    ae_cache_loan_end(&loan);
    ae_cache_destroy(c);
}

TEST_MAIN()
