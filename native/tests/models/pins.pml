/*
 * pins.pml - commit, pin and reclaim of live graphs as a model for spin.
 *
 *   writer   touch: save the head in a history, store past, store head ... store committed;
 *            at any time between: membarrier, read the pins, reuse what is superseded, give the
 *            version that all readers see a later stamp and no history (live/sweep.h)
 *   readers  load committed, pin (through a store buffer), load committed again;
 *            load head, load past, walk the histories, read the entries
 *
 * The graph is one list: others share `committed` and pins, and have memory of their own. Its blocks
 * and histories are cells of one memory that is reused at once.
 * The model knows what each commit shows (`shown`); a reader that finds anything else, or touches
 * a cell that is free, fails. live/table.h and live/pins.h are the protocol in words.
 *
 * Each of these, defined, breaks it, and spin must say so (run.sh):
 *   NO_FENCE           the writer reads the pins without a membarrier
 *   NO_SECOND_LOAD     the reader pins what it loaded once
 *   FREED_WHEN_GROWN   a block that was outgrown is reused at once
 *   PINS_READ_FIRST    the pins are read before the commit is published
 *   HEAD_BEFORE_PAST   the writer stores the new head first
 *   PAST_LOADED_FIRST  the reader loads past before head
 *   PAST_RESTORED      undoing a transaction puts past back as well
 *   SWEPT_TOO_LATE     the later stamp is that of the last commit, not of one that all readers have
 *   SWEPT_TOO_SOON     a version that not all readers see loses its history
 *
 * Caveats: stores of the writer are seen in order and at once; x86 keeps the order, and C11's
 * release and acquire ask for it elsewhere. Only a reader's pin may lag behind: that is the one
 * store that must not pass a later load. Pins of dead and expired readers are not in the model.
 */
#ifndef COMMITS
#define COMMITS 3
#endif
#ifndef READERS
#define READERS 1
#endif
#ifndef READS
#define READS 1 /* by each reader */
#endif

#define CELLS 9 /* cell 0 is none */
#define ROOM  2 /* entries of a block */
#define NONE  255

/* What a cell is. */
#define FREE    0
#define BLOCK   1
#define HISTORY 2

byte kind[CELLS];
byte entry[CELLS * ROOM];                                    /* of blocks */
byte saved_block[CELLS], saved_length[CELLS], saved_epoch[CELLS], next[CELLS]; /* of histories */

/* The root: two words, each stored and loaded at once. */
byte head_block, head_length;
byte past_epoch, past_history;

byte committed = 1;
byte pin[READERS], buffered[READERS]; /* 0: no pin; NONE: nothing waits */

byte shown_length[COMMITS + 2], shown[(COMMITS + 2) * ROOM];

/* Retired cells, oldest first. */
byte retired[CELLS], retired_epoch[CELLS];
byte num_retired;

inline allocate(cell, what) {
    atomic {
        cell = 1;
        do
        :: cell < CELLS && kind[cell] != FREE -> cell++
        :: else -> break
        od;
        if
        :: cell < CELLS -> kind[cell] = what
        :: else -> cell = 0
        fi
    }
}

inline retire(cell) {
    retired[num_retired] = cell;
    retired_epoch[num_retired] = epoch;
    num_retired++
}

inline membarrier() {
    atomic {
        i = 0;
        do
        :: i < READERS ->
            if
            :: buffered[i] != NONE -> pin[i] = buffered[i]; buffered[i] = NONE
            :: else
            fi;
            i++
        :: else -> break
        od;
        i = 0
    }
}

inline read_pins() {
    oldest = committed;
    i = 0;
    do
    :: i < READERS ->
        seen = pin[i]; /* once: another look may find a later one */
        d_step {
            if
            :: seen != 0 && seen < oldest -> oldest = seen
            :: else
            fi;
            i++
        }
    :: else -> break
    od;
    i = 0
}

inline reuse() {
    atomic {
        do
        :: num_retired > 0 && retired_epoch[0] <= oldest ->
            kind[retired[0]] = FREE;
            num_retired--;
            i = 0;
            do
            :: i < num_retired ->
                retired[i] = retired[i + 1];
                retired_epoch[i] = retired_epoch[i + 1];
                i++
            :: else -> break
            od;
            i = 0
        :: else -> break
        od
    }
}

proctype writer() {
    byte epoch = 2, i, oldest, seen, cell, old_block, old_length, old_epoch, old_history;
    byte value = 1, length, marked;
    bool own, kept;
    do
    :: epoch <= COMMITS + 1 ->
        if
        :: epoch > 2 -> goto publish /* a commit of other lists */
        :: true
        fi;
        /* touch */
        d_step {
            old_block = head_block;
            old_length = head_length;
            old_epoch = past_epoch;
            own = false;
            cell = 0
        };
        if
        :: past_epoch != 0 ->
            allocate(cell, HISTORY);
            if
            :: cell == 0 -> break /* no room: the model ends here */
            :: else
            fi;
            d_step { /* nobody can see the cell yet */
                saved_block[cell] = head_block;
                saved_length[cell] = head_length;
                saved_epoch[cell] = past_epoch;
                next[cell] = past_history;
                retire(cell)
            }
        :: else
        fi;
        marked = num_retired; /* what is retired from here on is kept if the transaction is undone */
#ifndef HEAD_BEFORE_PAST
        atomic { past_epoch = epoch; past_history = cell };
#endif
        /* change: append in place, or copy with another first entry */
        if
        :: head_length > 0 && head_length < ROOM ->
            entry[head_block * ROOM + head_length] = value;
            atomic { head_length = head_length + 1; value++ }
        :: true ->
            old_history = past_history; /* `cell` is needed again */
#ifdef HEAD_BEFORE_PAST
            old_history = cell;
#endif
            allocate(cell, BLOCK);
            if
            :: cell == 0 -> break
            :: else
            fi;
            d_step {
                length = (head_length == 0 -> 1 : head_length);
                entry[cell * ROOM] = value;
                entry[cell * ROOM + 1] = (length > 1 -> entry[head_block * ROOM + 1] : 0);
                value++
            };
            if
            :: old_block != 0 ->
#ifdef FREED_WHEN_GROWN
                kind[old_block] = FREE
#else
                retire(old_block)
#endif
            :: else
            fi;
            own = true;
            atomic { head_block = cell; head_length = length };
            cell = old_history;
            old_history = 0
        fi;
#ifdef HEAD_BEFORE_PAST
        atomic { past_epoch = epoch; past_history = cell };
#endif
        /* commit, or undo */
        kept = true;
        if
        :: true
        :: true -> kept = false
        fi;
        if
        :: !kept ->
            if
            :: own -> num_retired = marked; kind[head_block] = FREE
            :: else
            fi;
            atomic { head_block = old_block; head_length = old_length };
#ifdef PAST_RESTORED
            atomic {
                past_epoch = old_epoch;
                past_history = (cell == 0 -> 0 : next[cell])
            }
#endif
        :: else
        fi;
publish:
        atomic {
            shown_length[epoch] = head_length;
            shown[epoch * ROOM] = (head_length > 0 -> entry[head_block * ROOM] : 0);
            shown[epoch * ROOM + 1] = (head_length > 1 -> entry[head_block * ROOM + 1] : 0)
        };
#ifdef PINS_READ_FIRST
        membarrier();
        read_pins();
        if
        :: oldest == committed -> oldest = epoch /* nobody reads an older one */
        :: else
        fi;
        committed = epoch;
        reuse();
#else
        committed = epoch;
        /* reclaim, now or later */
        if
        :: true ->
#ifndef NO_FENCE
            membarrier();
#endif
            read_pins();
            reuse();
            /* sweep, or not */
            if
#ifdef SWEPT_TOO_SOON
            :: past_epoch != 0 ->
#else
            :: past_epoch != 0 && past_epoch <= oldest ->
#endif
                atomic {
#ifdef SWEPT_TOO_LATE
                    past_epoch = committed;
#else
                    past_epoch = (past_epoch <= oldest -> oldest : past_epoch);
#endif
                    past_history = 0
                }
            :: true
            fi
        :: true
        fi;
#endif
        epoch++
    :: else -> break
    od
}

/* The core of a reader, which lets its stores go when it likes. */
proctype store_buffer(byte me) {
end:
    do
    :: atomic { buffered[me] != NONE -> pin[me] = buffered[me]; buffered[me] = NONE }
    od
}

inline store_pin(value) {
    atomic {
        if
        :: buffered[me] != NONE -> pin[me] = buffered[me]
        :: else
        fi;
        buffered[me] = value
    }
}

proctype reader(byte me) {
    byte epoch, again, block, length, at, history, i, reads;
    do
    :: reads < READS ->
        do
        :: epoch = committed;
           store_pin(epoch);
#ifdef NO_SECOND_LOAD
           break
#else
           again = committed;
           if
           :: again == epoch -> break
           :: else
           fi
#endif
        od;
#ifdef PAST_LOADED_FIRST
        atomic { at = past_epoch; history = past_history };
        atomic { block = head_block; length = head_length };
#else
        atomic { block = head_block; length = head_length };
        atomic { at = past_epoch; history = past_history };
#endif
        do
        :: at > epoch && history == 0 -> length = 0; break
        :: at > epoch && history != 0 ->
            assert(kind[history] == HISTORY);
            atomic { block = saved_block[history]; length = saved_length[history] };
            at = saved_epoch[history];
            history = next[history]
        :: else -> break
        od;
        assert(length == shown_length[epoch]);
        i = 0;
        do
        :: i < length ->
            assert(kind[block] == BLOCK);
            assert(entry[block * ROOM + i] == shown[epoch * ROOM + i]);
            i++
        :: else -> break
        od;
        store_pin(0);
        reads++;
        i = 0
    :: else -> break
    od
}

init {
    byte r;
    atomic {
        do
        :: r < READERS ->
            buffered[r] = NONE;
            run store_buffer(r);
            run reader(r);
            r++
        :: else -> break
        od;
        run writer()
    }
}
