/*
 * Waiting in line: a waiter that lives is granted in the end.
 *
 * Three clients take turns on one key for ever. The first never dies; the other two may die at any
 * moment, waiting or holding. A wake-up may be lost. Scheduling is weakly fair (pan -f): what can
 * go on for ever without a pause happens in the end. The laws of time in it: a claim and a
 * place whose client died run out, and a pause between two asks ends.
 *
 * What must hold: whenever the first client waits, it is granted later (I5, I6).
 */
#define N 3

byte owner = N;          /* of the key; N: nobody */
chan line = [N] of { byte };
bool dead[N];
bool wake[N];            /* a message on its way to the waiter */
bool watching[N];        /* it would arrive */
bool waits = false;      /* the first client waits */
byte head;

#ifdef LOSSLESS /* no wake-up is lost: then waiting may do without a poll */
#define lost false
#else
#define lost true
#endif

/* The head of the line, or N. mem.key.expire, sweep in common.lua: the dead have dropped out. */
inline front() {
	if
	:: line?[head] -> line?<head>
	:: else -> head = N
	fi
}

/* mem.key.wakeHead, promote in common.lua: who comes next is told. */
inline tell() {
	front();
	if
	:: head < N && watching[head] -> wake[head] = true
	:: head < N && lost -> skip /* and it may get lost */
	:: else
	fi;
	head = N
}

/* acquire.lua, mem.Store.Acquire: nobody passes the line; the refused keeps a place in it. */
#define first(c) (len(line) == 0 || line?[eval(c)])

proctype Client(byte c) {
again:
	/* Locker.run: watch, then ask. */
#ifdef ASK_THEN_WATCH
	skip;
#else
	watching[c] = true;
#endif
	if
	:: c == 0 -> waits = true
	:: c != 0 -> skip
	fi;
ask:
	atomic {
		if
#ifdef NO_LINE /* who asks when it is free gets it */
		:: owner == N ->
#else
		:: owner == N && first(c) ->
#endif
			owner = c;
			if :: line??[eval(c)] -> line??eval(c) :: else fi;
			watching[c] = false; wake[c] = false;
			if :: c == 0 -> waits = false :: else fi;
			goto held
		:: else ->
			if :: line??[eval(c)] :: else -> line!c fi
		fi
	};
#ifdef ASK_THEN_WATCH /* a release between the refusal and the watch is not heard */
	watching[c] = true;
#endif
	/* line.sleep: until a wake-up or the end of the pause. */
	if
	:: atomic { wake[c] -> wake[c] = false }
#ifndef NO_POLL
	:: skip /* place.pause: the poll */
#endif
	:: atomic { c != 0 -> dead[c] = true; watching[c] = false; wake[c] = false }
		goto gone
	fi;
	goto ask;
held:
	if
	:: atomic { owner = N; tell() } /* release.lua, mem.Store.Release */
	:: c != 0 -> dead[c] = true; goto gone /* it died: the claim runs out */
	fi;
	goto again;
gone:
	skip
}

/* The store's clock ends what the dead left. */
active proctype Expiry() {
	byte c;
end_expiry:
	do
	:: atomic { owner < N && dead[owner] -> owner = N; tell() }
#ifndef DEAD_HEAD_STAYS /* a place without a life of its own */
	:: atomic { dead[1] && line??[1] -> c = 1; line??eval(c); c = 0; tell() }
	:: atomic { dead[2] && line??[2] -> c = 2; line??eval(c); c = 0; tell() }
#endif
	od
}

init {
	atomic { run Client(0); run Client(1); run Client(2) }
}

ltl granted { [] (waits -> <> !waits) }
