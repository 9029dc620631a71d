/*
 * A lease with a fencing token ("fence"): three clients, one store, one resource that compares fences.
 *
 * Time is not a number in this model. Every request with a TTL (an acquire, a renewal) is a span of
 * its client, and spans end in order. A claim may expire in the store only when the client's own
 * deadline for that span has passed: trust is counted from before the request was sent, minus a
 * margin (keeper.Hold.Trusted, keeper.Margin). Otherwise everything may happen at any moment: a
 * deadline passes, a claim expires, an answer is lost, a release or a write arrives late, a client
 * dies, the store forgets all its data.
 *
 * What must hold:
 *   I1  the resource accepts no write with a fence below one that it has accepted, and refuses
 *       no write of the last holder
 *   I2  every grant has a higher fence than all before, also after the store forgot
 *   I3  no two clients trust their lease at once, unless the store forgot one of them
 *   I9  only its owner or its TTL ends a claim, and the claim does not come back
 */
#define N 3 /* clients */
#ifndef GRANTS
#define GRANTS 3 /* grants in total; the bounds are those of a quick run */
#endif
#ifndef CALLS
#define CALLS 2 /* renewals and repeated attempts in total */
#endif
#ifndef RESTARTS
#define RESTARTS 1
#endif

/* The store. */
byte owner = 0;    /* of the claim; every tenure has its own, 0: none */
byte span = 0;     /* of its client, on which the claim is based */
byte last = 0;     /* the highest fence so far; a restart forgets it */
byte given = 0;    /* the fence of the claim */
byte clock = 1;    /* the store's clock, in fences */
byte restarts = 0;

/* The resource. */
byte accepted = 0; /* the highest fence of an accepted write */

/* The clients, as far as others see them. */
byte begun[N];  /* spans begun */
byte passed[N]; /* spans whose deadline has passed */
byte trusts[N]; /* the span on which the client's trust is based; 0: it holds nothing */
byte release = 0; /* a late release: the owner */
byte write = 0;   /* a late write: its fence */

/* Ghosts: state that no part of the system knows. */
byte highest = 0;           /* of all grants */
byte grants = 0;
byte calls = 0;
byte clientOf[GRANTS + 1]; /* the client of an owner */
byte fence[N];           /* the fence that each client got last */
bool known[N];           /* the client got it for the live claim */
bool forgot[N];              /* the store forgot a claim that this client trusts */

#define trusting(c) (trusts[c] > passed[c])
#define text(f) (f < 10 -> 10 * f : f) /* the order of fences below 100 as text */

/* The key is free. Clients are alike: it is enough to give the first grant to the first client, and
   the second to one of two. */
#define free(c) (owner == 0 && grants < GRANTS && c <= grants)

/* Data of the past is cleared, so that states that differ only in the past are the same state. */
inline normalize(c) {
	if
	:: trusts[c] == 0 && (owner == 0 || clientOf[owner] != c) -> begun[c] = 0; passed[c] = 0; forgot[c] = false
	:: else
	fi
}

/* The client holds nothing, as far as it knows. */
inline drop(c, me) {
	trusts[c] = 0;
	me = 0;
	fence[c] = 0;
	known[c] = false;
	normalize(c)
}

inline end(by) { /* the claim ends */
	assert(owner == by); /* I9 */
	known[clientOf[owner]] = false;
	owner = 0;
	span = 0;
	normalize(clientOf[by]);
	clientOf[by] = 0
}

/* acquire.lua, mem.Store.Acquire: grant a free key, and repeat the grant for the same owner. */
inline acquire(c, me) {
	begun[c]++;
	if
	:: me != 0 && owner == me ->
#ifdef REPEAT_RAISES /* a call whose answer was lost is repeated and gets another fence */
		last++; given = last; highest = last;
#endif
		skip
	:: else ->
		grants++;
		me = grants;
		clientOf[me] = c;
		owner = me;
#ifdef NO_CLOCK_PART /* the fence is only a counter */
		last = last + 1;
#else
		last = (last + 1 > clock -> last + 1 : clock);
#endif
		given = last;
		assert(given > highest); /* I2 */
		highest = given;
		forgot[c] = false
	fi;
	span = begun[c];
	assert(!known[c] || fence[c] == given); /* a claim has one fence, however often it is requested */
	known[c] = true;
	fence[c] = given
}

/* A client with the answer of the store trusts the span that it requested. */
inline trust(c) {
	trusts[c] = begun[c];
	/* A hold does not continue during another's grant. */
	assert(!trusting(c) || forgot[c] || fence[c] == highest);
	/* I3 */
	assert(!trusting(c) || forgot[c] ||
		((!trusting((c + 1) % N) || forgot[(c + 1) % N]) && (!trusting((c + 2) % N) || forgot[(c + 2) % N])))
}

/* A release at the store (release.lua, mem.Store.Release): it compares the owner. */
inline arrive(whose) {
	if
#ifdef NO_OWNER_CHECK /* release is a plain delete */
	:: owner != 0 ->
#else
	:: owner == whose ->
#endif
		end(whose)
	:: else
	fi
}

/* A write at the resource (guard.Row.Update, guard.Table.Advance): set fence = new where fence
   <= new. */
inline check(new) {
	if
#ifdef NO_FENCE_COMPARE /* the resource accepts every write */
	:: true ->
#else
#ifdef STRICT_COMPARE /* the second write of a holder is refused */
	:: new > accepted ->
#else
#ifdef FENCE_AS_TEXT /* 10 comes before 9 */
	:: text(new) >= text(accepted) ->
#else
	:: new >= accepted ->
#endif
#endif
#endif
		assert(new >= accepted); /* I1 */
		accepted = new
	:: else -> assert(new < highest) /* only an earlier holder is refused */
	fi
}

/* Locker.Lock, keeper.Keeper, Lease.Unlock. */
proctype Client(byte c) {
	byte me;
end_acquire:
	if
	/* Locker.Lock: granted. */
	:: atomic { free(c) || me != 0 && owner == me -> acquire(c, me); trust(c) }
	:: atomic { free(c) -> acquire(c, me); /* granted, and the answer is lost */
		if
		/* The same owner retries. */
		:: calls < CALLS ->  calls++; goto end_acquire
		/* Locker.Lock gives up: a late release. */
		:: release == 0 -> release = me; drop(c, me); goto end_acquire
		/* The client died: the claim expires. */
		::                 drop(c, me); goto end_acquire
		fi }
	fi;
	do
	/* Lease.Err was nil: a write. */
	:: d_step { trusting(c) -> check(fence[c]) }
	/* A write that arrives late. */
	:: d_step { trusting(c) && write == 0 -> write = fence[c] }
	/* keeper.Keeper.renew sends. */
	:: d_step { trusting(c) && calls < CALLS -> calls++; begun[c]++ }
		if
		:: atomic { /* renew.lua, mem.Store.renew */
#ifdef RENEW_BY_EXISTENCE /* the renewal extends any claim, as SET XX does */
			owner != 0 ->
#else
			owner == me -> span = begun[c];
#endif
			if
			:: trust(c) /* keeper.Hold.renewed: trust from the send of this renewal */
			:: skip     /* the answer is lost */
			fi }
#ifdef EXTEND_OR_CREATE /* a renewal that finds nothing creates the claim again */
		:: atomic { owner == 0 -> owner = me; span = begun[c]; trust(c) }
#endif
		/* keeper.Hold.Gone: the store reports that it is not held. */
		:: atomic { owner != me -> drop(c, me); goto end_acquire }
		fi
#ifdef TRUST_UNTIL_RELEASED
	:: d_step { arrive(me) } atomic { drop(c, me); goto end_acquire }
#else
	/* Lease.Unlock: trust ends before the release is sent. */
	:: atomic { trusts[c] = 0; arrive(me); drop(c, me); goto end_acquire }
#endif
	/* The same, but the release arrives late. */
	:: atomic { release == 0 -> release = me; drop(c, me); goto end_acquire }
	/* The deadline has passed: the lease is lost, and nothing is sent. */
	:: atomic { !trusting(c) -> drop(c, me); goto end_acquire }
	od
}

/* Events that no client causes. */
active proctype World() {
end_world:
	do
	/* Deadlines pass in order. */
	:: d_step { passed[0] < begun[0] -> passed[0]++ }
	:: d_step { passed[1] < begun[1] -> passed[1]++ }
	:: d_step { passed[2] < begun[2] -> passed[2]++ }

	/* A claim expires (PX, mem.key.expire), after its holder's deadline. */
#ifdef TRUST_FROM_REPLY /* trust is counted from the answer: the claim may expire before the deadline */
	:: d_step { owner != 0 -> end(owner) }
#else
	:: d_step { owner != 0 && passed[clientOf[owner]] >= span -> end(owner) }
#endif

	/* Late messages arrive. */
	:: d_step { release != 0 -> arrive(release); release = 0 }
	:: d_step { write != 0 -> check(write); write = 0 }

	/* The clock advances, and catches up with fences that were ahead of it. */
	:: d_step { clock <= last -> clock = last + 1 }

	/* The store restarts empty. That takes longer than its fences are ahead of the clock. */
	:: d_step { restarts < RESTARTS && clock > last ->
		restarts++;
		if
		:: owner != 0 -> forgot[clientOf[owner]] = true; end(owner)
		:: else
		fi;
		last = 0; given = 0 }

#ifdef COUNTER_WITH_THE_KEY /* the counter is deleted with the claim */
	:: d_step { owner == 0 && last != 0 -> last = 0; clock = 0 }
#endif
	od
}

init {
	atomic { run Client(0); run Client(1); run Client(2) }
}
