/*
 * A lease with a fence: three clients, one store, one resource that compares fences.
 *
 * Time is not a number here. Every request for a life (an acquire, a renewal) is a span of its
 * client, and spans end in order. A claim may run out in the store only when the client's own
 * deadline for that span has passed: trust is counted from before the request was sent, and less a
 * margin (keeper.Hold.Trusted, keeper.Margin). Otherwise everything may happen at any moment: a
 * deadline passes, a claim runs out, an answer is lost, a release or a write arrives late, a
 * client dies, the store forgets all it knows.
 *
 * What must hold:
 *   I1  the resource accepts no write with a fence below one that it has accepted, and refuses
 *       none of the holder that was granted last
 *   I2  every grant has a higher fence than all before, also after the store forgot
 *   I3  no two clients trust their lease at once, unless the store forgot one of them
 *   I9  a claim ends by its own owner or by its own life, and does not come back
 */
#define N 3 /* clients */
#ifndef GRANTS
#define GRANTS 3 /* grants in all; the bounds are those of a quick run */
#endif
#ifndef ASKS
#define ASKS 2 /* renewals and repeated asks in all */
#endif
#ifndef RESTARTS
#define RESTARTS 1
#endif

/* The store. */
byte owner = 0;    /* of the claim; every turn has one of its own, 0 is nobody */
byte span = 0;     /* of its client, from which the claim lives */
byte last = 0;     /* the highest fence given out; a restart forgets it */
byte given = 0;    /* the fence of the claim */
byte clock = 1;    /* the store's clock, in fences */
byte restarts = 0;

/* The resource. */
byte accepted = 0; /* the highest fence of an accepted write */

/* The clients, as far as others look at them. */
byte asked[N];  /* spans begun */
byte passed[N]; /* spans whose deadline has passed */
byte trusts[N]; /* the span on which the client's trust rests; 0: it holds nothing */
byte release = 0; /* a release that is late: the owner */
byte write = 0;   /* a write that is late: its fence */

/* Ghosts: what no part of the system knows. */
byte highest = 0;           /* of all grants */
byte grants = 0;
byte asks = 0;
byte turnOf[GRANTS + 1]; /* the client whose turn an owner is */
byte fence[N];           /* what each client was told last */
bool known[N];           /* it was told for the claim that lives */
bool forgot[N];              /* the store forgot a claim that this client trusts */

#define trusting(c) (trusts[c] > passed[c])
#define text(f) (f < 10 -> 10 * f : f) /* what a fence below 100 is by the order of its letters */

/* There is room. Clients are alike: that the first grant goes to the first of them, and the second to one of two, loses nothing. */
#define room(c) (owner == 0 && grants < GRANTS && c <= grants)

/* What is over is forgotten, so that states which differ in nothing but the past are one. */
inline tidy(c) {
	if
	:: trusts[c] == 0 && (owner == 0 || turnOf[owner] != c) -> asked[c] = 0; passed[c] = 0; forgot[c] = false
	:: else
	fi
}

/* The client holds nothing, as far as it knows. */
inline drop(c, me) {
	trusts[c] = 0;
	me = 0;
	fence[c] = 0;
	known[c] = false;
	tidy(c)
}

inline end(by) { /* the claim goes */
	assert(owner == by); /* I9 */
	known[turnOf[owner]] = false;
	owner = 0;
	span = 0;
	tidy(turnOf[by]);
	turnOf[by] = 0
}

/* acquire.lua, mem.Store.Acquire: grant if there is room, and the same again to the same owner. */
inline acquire(c, me) {
	asked[c]++;
	if
	:: me != 0 && owner == me ->
#ifdef ASK_AGAIN_RAISES /* a call whose answer was lost is made again and gets another fence */
		last++; given = last; highest = last;
#endif
		skip
	:: else ->
		grants++;
		me = grants;
		turnOf[me] = c;
		owner = me;
#ifdef NO_CLOCK_PART /* the fence is a counter alone */
		last = last + 1;
#else
		last = (last + 1 > clock -> last + 1 : clock);
#endif
		given = last;
		assert(given > highest); /* I2 */
		highest = given;
		forgot[c] = false
	fi;
	span = asked[c];
	assert(!known[c] || fence[c] == given); /* a claim has one fence, however often it is asked for */
	known[c] = true;
	fence[c] = given
}

/* A client with the answer of the store trusts the span that it asked for. */
inline trust(c) {
	trusts[c] = asked[c];
	/* A hold does not go on over another's grant. */
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

/* A write at the resource (guard.Row.Update, guard.Table.Advance): set fence = new where fence <= new. */
inline check(new) {
	if
#ifdef NO_FENCE_COMPARE /* the resource takes every write */
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
	:: else -> assert(new < highest) /* only who was followed is refused */
	fi
}

/* Locker.Lock, keeper.Keeper, Lease.Unlock. */
proctype Client(byte c) {
	byte me;
end_ask:
	if
	:: atomic { room(c) || me != 0 && owner == me -> acquire(c, me); trust(c) } /* Locker.serve */
	:: atomic { room(c) -> acquire(c, me); /* granted, and the answer is lost */
		if
		:: asks < ASKS ->  asks++; goto end_ask                      /* the same owner asks again */
		:: release == 0 -> release = me; drop(c, me); goto end_ask   /* Locker.leave, place.giveUp: a release that is late */
		::                 drop(c, me); goto end_ask                 /* the client died: the claim runs out */
		fi }
	fi;
	do
	:: d_step { trusting(c) -> check(fence[c]) }                      /* Lease.Err was nil: a write */
	:: d_step { trusting(c) && write == 0 -> write = fence[c] }       /* and one that arrives late */
	:: d_step { trusting(c) && asks < ASKS -> asks++; asked[c]++ }    /* keeper.Keeper.renew sends */
		if
		:: atomic { /* renew.lua, mem.Store.renew */
#ifdef RENEW_BY_EXISTENCE /* whatever claim is there is prolonged, as by SET XX */
			owner != 0 ->
#else
			owner == me -> span = asked[c];
#endif
			if
			:: trust(c) /* keeper.Hold.renewed: trust from the send of this renewal */
			:: skip     /* the answer is lost */
			fi }
#ifdef EXTEND_OR_CREATE /* a renewal that finds nothing makes the claim anew */
		:: atomic { owner == 0 -> owner = me; span = asked[c]; trust(c) }
#endif
		:: atomic { owner != me -> drop(c, me); goto end_ask } /* keeper.Hold.Gone: the store says that it is not held */
		fi
#ifdef TRUST_UNTIL_RELEASED
	:: d_step { arrive(me) } atomic { drop(c, me); goto end_ask }
#else
	:: atomic { trusts[c] = 0; arrive(me); drop(c, me); goto end_ask } /* Lease.seal, Lease.Unlock: trust ends before the release is sent */
#endif
	:: atomic { release == 0 -> release = me; drop(c, me); goto end_ask } /* the same, and it arrives late */
	:: atomic { !trusting(c) -> drop(c, me); goto end_ask } /* the deadline has passed: the lease is lost, and nothing is sent */
	od
}

/* What happens by itself. */
active proctype World() {
end_world:
	do
	/* Deadlines pass in order. */
	:: d_step { passed[0] < asked[0] -> passed[0]++ }
	:: d_step { passed[1] < asked[1] -> passed[1]++ }
	:: d_step { passed[2] < asked[2] -> passed[2]++ }

	/* A claim runs out (PX, mem.key.expire), after its holder's deadline. */
#ifdef TRUST_FROM_REPLY /* trust is counted from the answer: the store may be ahead of the holder */
	:: d_step { owner != 0 -> end(owner) }
#else
	:: d_step { owner != 0 && passed[turnOf[owner]] >= span -> end(owner) }
#endif

	/* What is late arrives. */
	:: d_step { release != 0 -> arrive(release); release = 0 }
	:: d_step { write != 0 -> check(write); write = 0 }

	/* The clock goes on; fences that ran ahead of it are caught up with. */
	:: d_step { clock <= last -> clock = last + 1 }

	/* The store restarts empty. That takes longer than its fences are ahead of the clock. */
	:: d_step { restarts < RESTARTS && clock > last ->
		restarts++;
		if
		:: owner != 0 -> forgot[turnOf[owner]] = true; end(owner)
		:: else
		fi;
		last = 0; given = 0 }

#ifdef COUNTER_WITH_THE_KEY /* the counter goes away with the claim */
	:: d_step { owner == 0 && last != 0 -> last = 0; clock = 0 }
#endif
	od
}

init {
	atomic { run Client(0); run Client(1); run Client(2) }
}
