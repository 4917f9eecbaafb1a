/*
 * must.h - what a fuzzer ends by: a condition that no input may break. In every build, unlike assert().
 */
#ifndef AE_FUZZ_MUST_H
#define AE_FUZZ_MUST_H

#include <stdlib.h>

#define MUST(condition)                                                                                      \
    do {                                                                                                     \
        if (!(condition))                                                                                    \
            abort();                                                                                         \
    } while (0)

#endif
