/* The cache of frames: its policy against a model, memory, the hot set, threads, forks. */
#include <pthread.h>
#include <sys/wait.h>

#include "cache/cache.h"
#include "test.h"

#define FRAME 64u /* bytes */

/* What the frame of a key holds. */
static void fill(uint64_t *frame, uint64_t key) {
    for (uint32_t i = 0; i < FRAME / 8; i++)
        frame[i] = key * 8 + i;
}

static bool holds(const void *frame, uint64_t key) {
    uint64_t expected[FRAME / 8];
    fill(expected, key);
    return memcmp(frame, expected, FRAME) == 0;
}

static void put(ae_cache *c, uint64_t key) {
    uint64_t frame[FRAME / 8];
    const void *at = frame;
    fill(frame, key);
    ae_cache_put(c, &key, &at, 1);
}

/* 1: found, 0: not there, -1: there with other content. */
static int find(ae_cache *c, uint64_t key) {
    ae_cache_reader r;
    ae_cache_enter(c, &r);
    ae_cache_prefetch(&r, key);
    const void *frame = ae_cache_find(&r, key);
    int result = !frame ? 0 : holds(frame, key) ? 1 : -1;
    ae_cache_leave(&r);
    return result;
}

static ae_cache *make(uint64_t frames) {
    ae_cache *c;
    aether_error err = {0};
    int rc = ae_cache_create(ae_cache_bytes(frames, FRAME), FRAME, &c, &err);
    CHECK_OK(rc, err);
    return c;
}

static ae_cache_stats stats_of(const ae_cache *c) {
    ae_cache_stats s;
    ae_cache_count(c, &s);
    return s;
}

/* ---- a model of S3-FIFO: lists of keys, the oldest first, searched from end to end -------- */

#define MODEL_MAX 4096

typedef struct {
    uint64_t key[MODEL_MAX];
    unsigned found[MODEL_MAX];
    uint64_t count;
} model_list;

typedef struct {
    model_list hot, small, main, ghosts;
    uint64_t frames, inserted, evicted; /* frames that are not hot */
} model;

static int64_t model_at(const model_list *l, uint64_t key) {
    for (uint64_t i = 0; i < l->count; i++)
        if (l->key[i] == key)
            return (int64_t)i;
    return -1;
}

static void model_append(model_list *l, uint64_t key, unsigned found) {
    l->key[l->count] = key;
    l->found[l->count++] = found;
}

static void model_remove(model_list *l, uint64_t at) {
    l->count--;
    for (uint64_t i = at; i < l->count; i++) {
        l->key[i] = l->key[i + 1];
        l->found[i] = l->found[i + 1];
    }
}

static uint64_t model_small_goal(const model *m) {
    return m->frames < 20 ? 1 : m->frames / 10;
}

static void model_evict_main(model *m) {
    while (m->main.found[0]) {
        model_append(&m->main, m->main.key[0], m->main.found[0] - 1);
        model_remove(&m->main, 0);
    }
    model_remove(&m->main, 0);
    m->evicted++;
}

static void model_evict_small(model *m) {
    uint64_t main_goal = m->frames - model_small_goal(m);
    while (m->small.count) {
        uint64_t key = m->small.key[0];
        unsigned found = m->small.found[0];
        model_remove(&m->small, 0);
        if (found < 2) {
            model_append(&m->ghosts, key, 0);
            m->evicted++;
            return;
        }
        model_append(&m->main, key, 0);
        if (m->main.count > main_goal)
            model_evict_main(m);
    }
}

static bool model_find(model *m, uint64_t key) {
    model_list *lists[] = {&m->small, &m->main};
    for (int i = 0; i < 2; i++) {
        int64_t at = model_at(lists[i], key);
        if (at >= 0) {
            if (lists[i]->found[at] < 3)
                lists[i]->found[at]++;
            return true;
        }
    }
    return model_at(&m->hot, key) >= 0;
}

/* A ghost that returned leaves a hole: the ring turns by evictions, whatever is in it. */
#define MODEL_NOBODY UINT64_MAX

static void model_put(model *m, uint64_t key) {
    if (m->frames == 0 || model_at(&m->hot, key) >= 0 || model_at(&m->small, key) >= 0 ||
        model_at(&m->main, key) >= 0)
        return;
    while (m->small.count + m->main.count >= m->frames) {
        if (m->small.count >= model_small_goal(m))
            model_evict_small(m);
        else
            model_evict_main(m);
        while (m->ghosts.count > m->frames - model_small_goal(m))
            model_remove(&m->ghosts, 0);
    }
    int64_t ghost = model_at(&m->ghosts, key);
    if (ghost >= 0)
        m->ghosts.key[ghost] = MODEL_NOBODY;
    model_append(ghost >= 0 ? &m->main : &m->small, key, 0);
    m->inserted++;
}

/* Keys as batches ask for them: few often, many rarely, now and then a scan. */
static uint64_t next_key(uint64_t *state, uint64_t *scan, uint64_t keys) {
    uint64_t r = test_random(state);
    if (*scan == 0 && r % 997 == 0)
        *scan = keys;
    if (*scan)
        return (*scan)--;
    uint64_t range = keys >> (r >> 8) % 8;
    return (r >> 16) % (range ? range : 1) * UINT64_C(0x100000001); /* not only small numbers */
}

static void follow_model(uint64_t frames, uint64_t pins, uint64_t steps, uint64_t seed) {
    ae_cache *c = make(frames);
    model *m = calloc(1, sizeof *m);
    uint64_t scan = 0, hits = 0, room = stats_of(c).frames;
    pins = pins < room ? pins : room;
    m->frames = room - pins;
    for (uint64_t i = 0; i < pins; i++) {
        uint64_t key = i * 3;
        uint64_t *frame = ae_cache_pin(c, key);
        REQUIRE(frame);
        fill(frame, key);
        model_append(&m->hot, key, 0);
    }
    for (uint64_t i = 0; i < steps; i++) {
        uint64_t key = next_key(&seed, &scan, 4 * room);
        bool expected = model_find(m, key);
        int got = find(c, key);
        hits += expected;
        if (got != expected) {
            TEST_FAIL("%d frames, %d pinned, step %d: find gives %d, the model %d", (int)room, (int)pins,
                      (int)i, got, expected);
            break;
        }
        if (!expected) {
            model_put(m, key);
            put(c, key);
        } else if (i % 5 == 0) {
            put(c, key); /* it is there already */
        }
    }
    ae_cache_stats s = stats_of(c);
    CHECK_EQ(s.hits, hits);
    CHECK_EQ(s.misses, steps - hits);
    CHECK_EQ(s.inserted, m->inserted);
    CHECK_EQ(s.evicted, m->evicted);
    CHECK_EQ(s.hot, pins);
    CHECK_EQ(s.held, pins + m->small.count + m->main.count);
    free(m);
    ae_cache_destroy(c);
}

TEST_ONE_THREAD(the_policy_is_the_models) {
    static const uint64_t frames[] = {1, 2, 3, 5, 10, 19, 20, 37, 64, 200};
    for (size_t i = 0; i < sizeof frames / sizeof *frames; i++)
        for (uint64_t seed = 1; seed <= 4; seed++)
            follow_model(frames[i], 0, 4000, seed);
}

TEST(the_policy_beside_a_hot_set_is_the_models) {
    static const uint64_t frames[] = {1, 2, 10, 40};
    for (size_t i = 0; i < sizeof frames / sizeof *frames; i++)
        for (uint64_t pins = 1; pins <= frames[i]; pins += 3)
            follow_model(frames[i], pins, 3000, pins);
}

TEST(a_scan_leaves_what_is_used_alone) {
    ae_cache *c = make(100);
    for (uint64_t key = 0; key < 50; key++)
        put(c, key);
    for (int round = 0; round < 2; round++)
        for (uint64_t key = 0; key < 50; key++)
            CHECK_EQ(find(c, key), 1);
    for (uint64_t key = 1000; key < 3000; key++)
        if (find(c, key) == 0)
            put(c, key);
    for (uint64_t key = 0; key < 50; key++)
        CHECK_EQ(find(c, key), 1);
    CHECK_EQ(stats_of(c).held, stats_of(c).frames);
    ae_cache_destroy(c);
}

/* ---- memory ---------------------------------------------------------------------------- */

TEST(all_is_within_the_bytes) {
    static const uint32_t sizes[] = {1, 3, 8, 100, 512, 4096, 65536};
    aether_error err = {0};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (uint64_t bytes = 200000; bytes < 30000000; bytes = bytes * 3 + 1) {
            ae_cache *c;
            REQUIRE_OK(ae_cache_create(bytes, sizes[i], &c, &err), err);
            ae_cache_stats s = stats_of(c);
            CHECK(s.bytes <= bytes);
            CHECK_EQ(s.bytes, ae_cache_bytes(s.frames, sizes[i]));
            CHECK(ae_cache_bytes(s.frames + 1, sizes[i]) > bytes);
            ae_cache_destroy(c);
        }
}

TEST(less_than_a_frame_is_refused_with_the_least) {
    ae_cache *c;
    aether_error err = {0};
    uint64_t least = ae_cache_bytes(1, 512);
    char text[32];
    snprintf(text, sizeof text, "at least %llu", (unsigned long long)least);
    CHECK_CODE(ae_cache_create(least - 1, 512, &c, &err), AETHER_E_INVALID);
    CHECK(c == NULL);
    CHECK_HAS(err.message, text);
    CHECK_EQ(err.value, least - 1);
    REQUIRE_OK(ae_cache_create(least, 512, &c, &err), err);
    CHECK(stats_of(c).frames >= 1);
    ae_cache_destroy(c);
    CHECK_CODE(ae_cache_create(1 << 20, 0, &c, &err), AETHER_E_INVALID);
    ae_cache_destroy(NULL);
}

#ifndef AE_SANITIZED
static uint64_t resident_bytes(void) {
    unsigned long long all = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f && fscanf(f, "%llu %llu", &all, &resident) != 2)
        resident = 0;
    if (f)
        fclose(f);
    return resident * 4096;
}

TEST_ONE_THREAD(a_full_cache_takes_no_more_memory_than_it_says) {
    uint64_t bytes = 48u << 20, before = resident_bytes();
    ae_cache *c;
    aether_error err = {0};
    REQUIRE_OK(ae_cache_create(bytes, FRAME, &c, &err), err);
    for (uint64_t key = 0; key < 2000000; key++)
        put(c, key);
    uint64_t grown = resident_bytes() - before;
    CHECK(grown <= bytes + (256u << 10));
    CHECK(grown >= bytes / 2);
    CHECK_EQ(stats_of(c).held, stats_of(c).frames);
    ae_cache_destroy(c);
    CHECK(resident_bytes() < before + (1u << 20));
}
#endif

/* ---- the hot set ----------------------------------------------------------------------------- */

TEST(pinned_frames_lie_together_and_stay) {
    ae_cache *c = make(50);
    uint8_t *first = NULL;
    for (uint64_t key = 0; key < 20; key++) {
        uint8_t *frame = ae_cache_pin(c, key);
        REQUIRE(frame);
        first = first ? first : frame;
        CHECK(frame == first + key * FRAME);
        fill((uint64_t *)(void *)frame, key);
    }
    CHECK_EQ((uintptr_t)first % 4096, 0);
    CHECK(ae_cache_pin(c, 7) == NULL); /* pinned already */
    for (uint64_t key = 100; key < 1000; key++)
        put(c, key);
    put(c, 5); /* passed over */
    for (uint64_t key = 0; key < 20; key++)
        CHECK_EQ(find(c, key), 1);
    CHECK_EQ(stats_of(c).hot, 20);
    CHECK(ae_cache_pin(c, 50) == NULL); /* something was put */
    ae_cache_destroy(c);
}

TEST(a_cache_may_be_all_hot) {
    ae_cache *c = make(8);
    uint64_t key = 0;
    for (uint64_t *frame; (frame = ae_cache_pin(c, key)) != NULL; key++)
        fill(frame, key);
    CHECK_EQ(key, stats_of(c).frames);
    put(c, 1000);
    CHECK_EQ(find(c, 1000), 0);
    CHECK_EQ(find(c, key - 1), 1);
    CHECK_EQ(stats_of(c).inserted, 0);
    ae_cache_destroy(c);
}

/* ---- threads ------------------------------------------------------------------------------------ */

typedef struct {
    ae_cache *cache;
    uint64_t seed, finds, hits;
    atomic_bool *stop; /* NULL: a fixed number of rounds */
    unsigned wrong;
} user;

#define BATCH 64

/* As a gather does: a batch is looked up, then what was missing is put. */
static void *use(void *arg) {
    user *u = arg;
    uint64_t frames[BATCH][FRAME / 8], missing[BATCH], scan = 0;
    const void *at[BATCH];
    for (int round = 0; u->stop ? !atomic_load(u->stop) : round < 1500; round++) {
        uint64_t n = 0;
        ae_cache_reader r;
        ae_cache_enter(u->cache, &r);
        for (int i = 0; i < BATCH; i++) {
            uint64_t key = next_key(&u->seed, &scan, 2000);
            const void *frame = ae_cache_find(&r, key);
            u->finds++;
            if (frame) {
                u->hits++;
                u->wrong += !holds(frame, key);
            } else {
                missing[n] = key;
                fill(frames[n], key);
                at[n] = frames[n];
                n++;
            }
        }
        ae_cache_leave(&r);
        ae_cache_put(u->cache, missing, at, n);
    }
    return NULL;
}

static void share(ae_cache *c, user *users, int n) {
    pthread_t threads[8];
    for (int i = 0; i < n; i++) {
        users[i] = (user){.cache = c, .seed = (uint64_t)i + 1};
        REQUIRE(pthread_create(&threads[i], NULL, use, &users[i]) == 0);
    }
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
}

TEST(threads_find_what_threads_put) {
    ae_cache *c = make(300);
    user users[6];
    uint64_t finds = 0, hits = 0;
    for (uint64_t key = 1; key <= 20; key++)
        fill(ae_cache_pin(c, key), key);
    share(c, users, 6);
    for (int i = 0; i < 6; i++) {
        CHECK_EQ(users[i].wrong, 0);
        finds += users[i].finds;
        hits += users[i].hits;
    }
    ae_cache_stats s = stats_of(c);
    CHECK_EQ(s.hits, hits);
    CHECK_EQ(s.hits + s.misses, finds);
    CHECK(hits > finds / 5);
    CHECK_EQ(s.inserted - s.evicted, s.held - s.hot);
    ae_cache_destroy(c);
}

/* ---- forks ------------------------------------------------------------------------------------------ */

/* In a child: the hot set is there, nothing else, and it can be used. */
static int child_works(ae_cache *c) {
    alarm(60); /* a hang ends here */
    for (uint64_t key = 1; key <= 20; key++)
        if (find(c, key) != 1)
            return 1;
    ae_cache_stats s = stats_of(c);
    if (s.held != 20 || s.hot != 20 || s.hits != 20 || s.misses || s.inserted)
        return 2;
    user u = {.cache = c, .seed = 1};
    use(&u);
    return u.wrong || !u.hits ? 3 : 0;
}

/* Two threads of the child come to the inherited lock at once. */
static int threads_of_child_work(ae_cache *c) {
    alarm(60);
    user users[2];
    share(c, users, 2);
    return users[0].wrong || users[1].wrong || find(c, 20) != 1 || stats_of(c).hot != 20;
}

TEST(a_forked_child_begins_with_the_hot_set) {
    SKIP_FORK_UNDER_SANITIZERS();
    ae_cache *c = make(300);
    atomic_bool stop = false;
    user users[2] = {{.cache = c, .seed = 8, .stop = &stop}, {.cache = c, .seed = 9, .stop = &stop}};
    pthread_t threads[2];
    for (uint64_t key = 1; key <= 20; key++)
        fill(ae_cache_pin(c, key), key);
    for (int i = 0; i < 2; i++)
        REQUIRE(pthread_create(&threads[i], NULL, use, &users[i]) == 0);
    for (int i = 0; i < 30; i++) {
        usleep(1000 + i * 37);
        pid_t child = fork();
        if (child == 0)
            _exit(i % 2 ? child_works(c) : threads_of_child_work(c));
        int status = 0;
        REQUIRE(child > 0 && waitpid(child, &status, 0) == child);
        CHECK(WIFEXITED(status));
        CHECK_EQ(WEXITSTATUS(status), 0);
    }
    atomic_store(&stop, true);
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        CHECK_EQ(users[i].wrong, 0);
    }
    ae_cache_destroy(c);
}

TEST_MAIN()
