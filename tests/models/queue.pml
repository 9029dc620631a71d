/*
 * The queue: a live waiter is granted the key in the end.
 *
 * Three clients acquire and release one key for ever. The first never dies; the other two may die
 * at any moment, waiting or holding. A wake-up may be lost. Scheduling is weakly fair (pan -f): a
 * step that stays possible happens in the end. The rules of time in the model: a claim and a queue
 * entry of a dead client expire, and a pause between two attempts ends.
 *
 * What must hold: whenever the first client waits, it is granted the key later (I5, I6).
 */
#define N 3

byte owner = N;          /* of the key; N: none */
chan queue = [N] of { byte };
bool dead[N];
bool wake[N];            /* a message on its way to the waiter */
bool watching[N];        /* a message would arrive */
bool waits = false;      /* the first client waits */
byte head;

#ifdef LOSSLESS /* no wake-up is lost: then waiting needs no poll */
#define lost false
#else
#define lost true
#endif

/* The head of the queue, or N. mem.key.expire, sweep in common.lua: entries of the dead are
   gone. */
inline front() {
	if
	:: queue?[head] -> queue?<head>
	:: else -> head = N
	fi
}

/* mem.key.wakeHead, promote in common.lua: the next waiter is notified. */
inline notify() {
	front();
	if
	:: head < N && watching[head] -> wake[head] = true
	:: head < N && lost -> skip /* the message may be lost */
	:: else
	fi;
	head = N
}

/* acquire.lua, mem.Store.Acquire: no client overtakes the queue; a refused client has an entry
   in it. */
#define first(c) (len(queue) == 0 || queue?[eval(c)])

proctype Client(byte c) {
again:
	/* Locker.Lock: watch, then acquire. */
#ifdef ACQUIRE_THEN_WATCH
	skip;
#else
	watching[c] = true;
#endif
	if
	:: c == 0 -> waits = true
	:: c != 0 -> skip
	fi;
attempt:
	atomic {
		if
#ifdef NO_QUEUE /* a client that attempts while the key is free gets it */
		:: owner == N ->
#else
		:: owner == N && first(c) ->
#endif
			owner = c;
			if :: queue??[eval(c)] -> queue??eval(c) :: else fi;
			watching[c] = false; wake[c] = false;
			if :: c == 0 -> waits = false :: else fi;
			goto held
		:: else ->
			if :: queue??[eval(c)] :: else -> queue!c fi
		fi
	};
#ifdef ACQUIRE_THEN_WATCH /* a release between the refusal and the watch goes unnoticed */
	watching[c] = true;
#endif
	/* The waiter sleeps until a wake-up or the end of the pause. */
	if
	:: atomic { wake[c] -> wake[c] = false }
#ifndef NO_POLL
	:: skip /* the poll */
#endif
	:: atomic { c != 0 -> dead[c] = true; watching[c] = false; wake[c] = false }
		goto gone
	fi;
	goto attempt;
held:
	if
	:: atomic { owner = N; notify() } /* release.lua, mem.Store.Release */
	:: c != 0 -> dead[c] = true; goto gone /* it died: the claim expires */
	fi;
	goto again;
gone:
	skip
}

/* The store's clock ends the claims and entries of the dead. */
active proctype Expiry() {
	byte c;
end_expiry:
	do
	:: atomic { owner < N && dead[owner] -> owner = N; notify() }
#ifndef DEAD_HEAD_STAYS /* a queue entry without a TTL */
	:: atomic { dead[1] && queue??[1] -> c = 1; queue??eval(c); c = 0; notify() }
	:: atomic { dead[2] && queue??[2] -> c = 2; queue??eval(c); c = 0; notify() }
#endif
	od
}

init {
	atomic { run Client(0); run Client(1); run Client(2) }
}

ltl granted { [] (waits -> <> !waits) }
