/* handoff.pml - who parks, who wakes: workers, consumers and a stop, for spin.
 *
 * What it shows, for two workers, two consumers and one who stops, in all interleavings of
 * the steps below, under sequential consistency (orders weaker than that are looked after
 * by ThreadSanitizer and by the comments at each atomic):
 *
 *   - no wake-up is lost: with no park ever timing out, nobody sleeps for good while
 *     something is left to be done, or after the end;
 *   - what wakes is there: a waiter on a consumer's stack is gone only when nobody is about
 *     to unpark it;
 *   - items are exact: none is delivered twice or lost, the ring never overflows, and a
 *     stop returns when all threads have left.
 *
 * The scheduler is three counters here, for it is explored itself (explore.c); what a task
 * does is a skip. What the engine may leave out, because somebody will be back soon, is
 * left out or not, as spin likes.
 *
 *   here                    there
 *   PARK, UNPARK            src/base/park.c: hr__park, hr__unpark, line by line
 *   wake_noted              src/engine/engine.c: hr__engine_unlock and struct hr_after
 *   pump                    hr__engine_pump_locked: take_credit_locked, end_locked,
 *                           fill_sink_locked
 *   wake_one, wake_workers  hr__engine_wake_one_locked, hr__engine_wake_workers_locked with
 *                           worth_waking_locked
 *   wake_consumers          hr__engine_wake_consumers_locked
 *   proctype worker         src/engine/worker.c: hr__worker_main, work_once_locked,
 *                           hr__worker_run_native_locked, park_locked, hr__worker_leave
 *   try_next, for_room      src/engine/consumer.c: hr__pipeline_try_next with pop_locked,
 *                           wake_for_room
 *   wait_once               the same: wait_once, list_waiter_locked, leave_list
 *   proctype stopper        src/engine/pipeline.c: hr_pipeline_stop, hr__pipeline_cancel,
 *                           await_threads_locked; hr__engine_cancel_locked
 *
 * What is one step. A section under the engine's lock is, but for a consumer that pumps and
 * then registers: another one may pop between the two. For what else could come between,
 * which is such a pop, comes to the same before or after the section; that it finds the
 * lock busy it may find at any time here. So are a section under the sink's lock, which
 * waits for nothing, and an unpark: the kernel's part of it, if late, is a wake-up too
 * many, and those are had by LIMITS.
 *
 *   -DLIMITS      parks with a limit may also end by it, at any time, LIMITS times each
 *   -DSTOP_LATE   the stop comes when the consumers are gone, so it cannot help them
 *   -DNO_...      without one of the steps: check_model.py demands that spin finds each */

#define W 2          /* workers: threads 0 and 1 */
#define FIRST 2      /* consumers: threads 2 and 3 */
#define LAST 3
#define STOPPER 4
#define THREADS 5

#ifndef ITEMS
#define ITEMS 3
#endif
#ifndef PLACES
#define PLACES 2
#endif
#ifndef LIMITS
#define LIMITS 0
#endif

/* the scheduler: sources and one stage */
byte left = ITEMS, room = PLACES, running = 0, done = 0, refused = 0;
/* engine's lock, and under it */
bool locked = false;
bool ended = false, cancelled = false;
bool parked[W];
byte parked_count = 0;
byte alive = W;
bool stopper_waits = false;
/* the sink; under its lock, but for credit and waiting, which are atomics */
byte count = 0, credit = 0, waiting = 0, delivered = 0;
bool sink_ended = false;
bool listed[THREADS];
/* parkers: 0 idle, 1 woken, 2 sleeping; in the futex's queue */
byte word[THREADS];
bool queued[THREADS];
bool there[THREADS]; /* the parker's storage */
byte consumers_gone = 0;

/* ---- src/base/park.c ---- */

/* result: 0 woken, 1 the limit passed. `budget`: how often it may. */
#define PARK(me, result, budget)                                                       \
    do                                                                                 \
    :: atomic { word[me] != 0 -> word[me] = 0; result = 0; break }                     \
    :: atomic { word[me] == 0 -> word[me] = 2 }                                        \
       atomic { /* futex_wait: compares and goes to sleep in one */                    \
           queued[me] = COMPARES(me);                                                  \
           result = 2                                                                  \
       }                                                                               \
       if                                                                              \
       :: atomic { !queued[me] -> TAKE_WAKE(me, result) }                              \
       :: atomic {                                                                     \
              queued[me] && budget > 0 ->                                              \
              budget--;                                                                \
              queued[me] = false;                                                      \
              result = 1;                                                              \
              TAKE_WAKE(me, result)                                                    \
          }                                                                            \
       fi;                                                                             \
       if                                                                              \
       :: result != 2 -> break                                                         \
       :: else                                                                         \
       fi                                                                              \
    od

#define TAKE_WAKE(me, result)                                                          \
    result = (word[me] == 1 -> 0 : result);                                            \
    word[me] = 0

#ifdef NO_COMPARE
#define COMPARES(me) true
#else
#define COMPARES(me) (word[me] == 2)
#endif

inline UNPARK(who)
{
    assert(there[who]);
#ifdef NO_MEMORY
    if
    :: word[who] == 2 -> word[who] = 1; queued[who] = false
    :: else
    fi
#else
    word[who] = 1;
#ifndef NO_FUTEX_WAKE
    queued[who] = false
#endif
#endif
}

/* ---- src/engine/engine.c ---- */

/* After the unlock. to_wake: bits of threads, noted under the lock. */
inline wake_noted()
{
    do
    :: atomic {
           to_wake != 0 ->
           i = 0;
           do
           :: to_wake & (1 << i) -> break
           :: else -> i++
           od;
           to_wake = to_wake & ~(1 << i);
           UNPARK(i);
           i = 0
       }
    :: else -> break
    od
}

#define OVER ((left == 0 || cancelled) && running == 0)
#define READY (left > 0 && room > 0 && !cancelled)

inline pump()
{
    room = room + credit;
    credit = 0;
    if
    :: !ended && OVER ->
        ended = true;
#ifndef NO_END_WAKE
        UNPARK(0);
        UNPARK(1)
#endif
    :: else
    fi;
    count = count + done;
    done = 0;
    assert(count <= PLACES);
    sink_ended = sink_ended || OVER
}

inline wake_one()
{
    if
    :: parked[0] -> parked[0] = false; parked_count--; to_wake = to_wake | 1
    :: parked[1] -> parked[1] = false; parked_count--; to_wake = to_wake | 2
    :: parked_count == 0
    fi
}

/* Somebody is awake, and back soon: then it may be left to that one. */
inline wake_workers()
{
    if
    :: READY -> wake_one()
    :: READY && parked_count < W
    :: !READY
    fi
}

/* soon: the caller runs a short task and is back. */
inline wake_consumers(soon)
{
    if
    :: waiting == 0
    :: waiting > 0 && soon && !sink_ended
    :: waiting > 0 ->
        n = (sink_ended -> THREADS : count);
        i = FIRST;
        do
        :: i <= LAST && n > 0 ->
            if
            :: listed[i] ->
                listed[i] = false;
                waiting--;
                n--;
                to_wake = to_wake | (1 << i)
            :: else
            fi;
            i++
        :: else -> break
        od;
        i = 0;
        n = 0
    fi
}

/* ---- src/engine/worker.c ---- */

mtype = { LOOKS, WORKS, PARKS, LEAVES };

proctype worker(byte me)
{
    byte to_wake = 0, i = 0, n = 0, result = 0, budget = LIMITS;
    mtype does = LOOKS;

    do
    :: atomic {
           !locked -> /* and so till the end of this step */
           if
           :: does == WORKS ->
               running--;
               if
               :: cancelled -> refused++; room++
               :: else -> done++
               fi
           :: does == PARKS && parked[me] -> parked[me] = false; parked_count--
           :: else
           fi;
           pump();
           if
           :: ended ->
               does = LEAVES;
               wake_consumers(false)
           :: !ended && READY ->
               does = WORKS;
               left--;
               room--;
               running++;
               wake_workers();
               wake_consumers(true)
           :: !ended && !READY ->
               does = PARKS;
#ifndef NO_WAKE_BEFORE_PARK
               wake_consumers(false);
#endif
               parked[me] = true;
               parked_count++
           fi
       }
       wake_noted();
       if
       :: does == PARKS -> PARK(me, result, budget); result = 0
       :: does == WORKS
       :: does == LEAVES -> break
       fi
    od;
    atomic { /* hr__worker_leave */
        !locked ->
        alive--;
#ifndef NO_LAST_WAKE
        if
        :: alive == 0 && stopper_waits -> UNPARK(STOPPER)
        :: else
        fi
#endif
    }
}

/* ---- src/engine/consumer.c ---- */

/* The lock is tried; who holds it sees the credit, or parks with a limit. */
inline for_room()
{
    if
    :: atomic {
           !locked && !ended ->
#ifndef NO_ROOM_WAKE
           wake_one()
#endif
       }
       wake_noted()
    :: true
    fi
}

/* status: 0 an item, 1 nothing (or the lock was busy), 2 the end */
inline try_next()
{
    atomic {
        if
        :: count > 0 ->
            credit++;
            count--;
            delivered++;
            status = 0;
            low = count <= 1
        :: count == 0 && sink_ended -> status = 2
        :: count == 0 && !sink_ended -> status = 1
        :: count > 0 || sink_ended -> status = 1 /* somebody holds the sink's lock */
        fi
    }
    if
    :: status == 0 && low -> for_room()
    :: else
    fi;
    low = false
}

#ifdef NO_CREDIT_LOOK
#define NOTHING_THERE (count == 0 && !sink_ended)
#else
#define NOTHING_THERE (count == 0 && !sink_ended && credit == 0)
#endif

inline wait_once()
{
    atomic {
        !locked ->
        locked = true;
        word[me] = 0;
        there[me] = true;
        pump()
    }
    /* here another consumer may pop */
#ifdef NO_REGISTER_UNDER_LOCK
    atomic { must_wait = NOTHING_THERE; locked = false }
#endif
    atomic {
#ifndef NO_REGISTER_UNDER_LOCK
        must_wait = NOTHING_THERE;
#endif
        if
        :: must_wait -> /* list_waiter_locked */
            listed[me] = true;
            waiting++;
#ifndef NO_WAIT_WAKE
            wake_workers()
#endif
        :: else
        fi;
        locked = false
    }
    wake_noted();
    if
    :: must_wait ->
        PARK(me, result, budget);
        atomic { /* leave_list */
            was_listed = listed[me];
            if
            :: was_listed -> listed[me] = false; waiting--
            :: else
            fi
        }
#ifndef NO_LEAVE_WAIT
        if
        :: !was_listed && result != 0 ->
            forever = 0;
            PARK(me, result, forever)
        :: else
        fi
#endif
    :: else
    fi;
    atomic { there[me] = false; result = 0; was_listed = false; must_wait = false }
}

/* wants: how many it takes before it goes its way, as a loop that breaks does. */
proctype consumer(byte me; byte wants)
{
    byte to_wake = 0, i = 0, n = 0, result = 0, budget = LIMITS, forever = 0;
    byte status = 0;
    bool must_wait = false, was_listed = false, low = false;

    do
    :: wants > 0 ->
        try_next();
        if
        :: status == 0 -> wants--
        :: status == 1 -> wait_once()
        :: status == 2 -> break
        fi
    :: wants == 0 -> break
    od;
    consumers_gone++
}

/* ---- src/engine/pipeline.c ---- */

proctype stopper()
{
    byte to_wake = 0, i = 0, n = 0, result = 0, forever = 0;

#ifdef STOP_LATE
    consumers_gone == 2;
#endif
    atomic { /* hr__engine_cancel_locked */
        !locked ->
        cancelled = true;
        pump();
        sink_ended = true;
#ifndef NO_CANCEL_WAKE
        wake_consumers(false);
#endif
        wake_workers()
    }
    wake_noted();
    atomic { !locked -> stopper_waits = true }
    do
    :: atomic { !locked && alive > 0 -> skip }
       PARK(STOPPER, result, forever)
    :: atomic { !locked && alive == 0 -> break }
    od;
    stopper_waits = false;
    assert(running == 0 && ended);
    consumers_gone == 2;
    assert(delivered + count + done + refused + left == ITEMS);
#ifdef STOP_LATE
    assert(delivered == ITEMS)
#endif
}

init {
    atomic {
        there[0] = true;
        there[1] = true;
        there[STOPPER] = true;
        run worker(0);
        run worker(1);
        run consumer(FIRST, 255);
        run consumer(LAST, 1);
        run stopper()
    }
}
