/*
 * Redlock with fences: three nodes, two clients, one node that restarts empty.
 *
 * Time is as in lease.pml: a claim may run out on a node only when its client's own deadline for
 * that span has passed. Every call to a node may be lost before or after it took effect, within a
 * bound. The proposal that a client makes of its own clock is left out: clocks are as wrong as
 * can be, and only what the nodes have stored decides.
 *
 * What must hold:
 *   I2  every grant has a higher fence than all before, also after a node forgot
 *   I3  no two clients trust their lease at once, also when a node forgot
 */
#ifndef TRIES
#define TRIES 3 /* attempts to acquire, in all */
#endif
#ifndef LOSSES
#define LOSSES 1 /* calls to a node that are lost, in all */
#endif
#ifndef RENEWALS
#define RENEWALS 1
#endif
#ifndef RESTARTS
#define RESTARTS 1
#endif
#define NODES 3
#define NONE  3 /* no node */
#ifdef QUORUM_HALF /* N/2 in place of N/2+1 */
#define MAJORITY 1
#else
#define MAJORITY 2 /* quorum.Store.majority */
#endif

/* The nodes. */
byte owner[NODES];
byte span[NODES];
byte last[NODES];
byte young = NONE; /* the node that has restarted, for as long as it may have forgotten a claim */

/* The clients. An owner is a try; its client is known by turnOf. */
byte turnOf[TRIES + 1];
byte asked[2];
byte passed[2];
byte trusts[2];
byte before[2]; /* spans begun before the restart */

byte tries = 0, losses = 0, renewals = 0, restarts = 0;
byte highest = 0; /* ghost: of all fences that were granted */

#define trusting(c) (trusts[c] > passed[c])
#define lives(c)    (owner[0] != 0 && turnOf[owner[0]] == c || owner[1] != 0 && turnOf[owner[1]] == c || owner[2] != 0 && turnOf[owner[2]] == c)

/* What is over is forgotten, so that states which differ in nothing but the past are one. */
inline tidy(c) {
	if
	:: !busy[c] && trusts[c] == 0 && !lives(c) -> asked[c] = 0; passed[c] = 0; before[c] = 0
	:: else
	fi
}
bool busy[2]; /* the client makes an attempt */

/* A node's own answer (acquire.lua): max(floor, last + 1), and the same owner again gets the same claim. */
inline grant(k, c, floor, out) {
	if
	:: owner[k] == me -> last[k] = (last[k] > floor -> last[k] : floor)
	:: else -> last[k] = (last[k] + 1 > floor -> last[k] + 1 : floor)
	fi;
	owner[k] = me;
	span[k] = asked[c];
	out = last[k]
}

inline trust(c, fence) {
	trusts[c] = asked[c];
	assert(!trusting(c) || fence >= highest); /* a hold does not go on over another's grant */
	assert(!trusting(c) || !trusting(1 - c)) /* I3 */
}

proctype Client(byte c) {
	byte me, k, n, good, fence;
	byte told[NODES]; /* the fence that each node told; 0: none that counts */
end_idle:
	atomic { tries < TRIES && c <= tries-> /* clients are alike: the first try is the first's */
		tries++; me = tries; turnOf[me] = c; asked[c]++; busy[c] = true;
		told[0] = 0; told[1] = 0; told[2] = 0; good = 0; fence = 0;
		/* Nodes answer in any order: it begins anywhere. Nodes are alike: the first try begins with the first. */
		if :: k = 0 :: tries > 1 -> k = 1 :: tries > 1 -> k = 2 fi;
		n = 0 }

	/* quorum.Store.ask: all nodes. */
	do
	:: n < NODES ->
		if
		:: atomic { owner[k] == 0 -> grant(k, c, 0, told[k]);
#ifndef YOUNG_COUNTED /* quorum.Store.count: a node that may have forgotten does not count */
			if :: young == k -> told[k] = 0 :: else fi;
#endif
			k = (k + 1) % NODES; n++ }
		:: atomic { owner[k] == 0 && losses < LOSSES -> losses++; grant(k, c, 0, told[k]); told[k] = 0; k = (k + 1) % NODES; n++ } /* the answer is lost */
		:: atomic { owner[k] != 0 -> k = (k + 1) % NODES; n++ }                      /* refused */
		:: atomic { losses < LOSSES -> losses++; k = (k + 1) % NODES; n++ }          /* the request is lost */
		fi
	:: atomic { n == NODES -> n = 0; k = 0; break }
	od;

	/* quorum.Store.fence: the highest of the lowest majority of those that count. */
	atomic {
		good = (told[0] > 0) + (told[1] > 0) + (told[2] > 0);
		if
		:: good < MAJORITY -> goto lose
		:: good >= MAJORITY
		fi;
		if
		:: good == 3 -> /* the middle one */
			fence = (told[0] > told[1] -> told[0] : told[1]); /* the higher of two */
			n = (told[0] > told[1] -> told[1] : told[0]);     /* the lower of two */
			fence = (told[2] >= fence -> fence : (told[2] > n -> told[2] : n));
			n = 0
		:: else ->
			fence = (told[0] > told[1] -> told[0] : told[1]);
			fence = (fence > told[2] -> fence : told[2])
		fi
	}
#ifndef NO_WRITE_BACK
	/* quorum.Store.writeBack: those that granted with a lower fence are asked again, until a majority has stored it. */
	do
	:: k < NODES ->
		if
		:: atomic { told[k] == 0 || told[k] >= fence -> k++ }
		:: atomic { told[k] > 0 && told[k] < fence && (owner[k] == 0 || owner[k] == me) ->
			grant(k, c, fence, told[k]);
#ifndef YOUNG_COUNTED
			if :: young == k -> told[k] = 0 :: else fi;
#endif
			k++ }
		:: atomic { told[k] > 0 && told[k] < fence && (losses < LOSSES || owner[k] != 0 && owner[k] != me) ->
			if :: owner[k] == 0 || owner[k] == me -> losses++ :: else fi; told[k] = 0; k++ } /* lost, or refused: it runs out */
		fi
	:: atomic { k == NODES ->
		k = 0;
		good = (told[0] >= fence) + (told[1] >= fence) + (told[2] >= fence);
		if
		:: good < MAJORITY -> goto lose
		:: good >= MAJORITY -> break
		fi }
	od;
#endif

	/* The core trusts from before the request was sent: an answer after that is none (keeper.Hold.Trusted). */
	atomic {
#ifdef LATE_COUNTED /* trust begins with the last answer */
		asked[c]++;
#endif
		if
		:: passed[c] >= asked[c] -> goto lose
		:: else -> trust(c, fence); assert(fence > highest); highest = fence /* I2 */
		fi
	};

	/* held */
	do
	:: atomic { trusting(c) && renewals < RENEWALS -> renewals++; asked[c]++; n = 0; good = 0; k = 0; told[0] = 0; told[1] = 0; told[2] = 0; }
		/* quorum.Store.RenewAll: who does not hold the claim does not renew it. */
		do
		:: k < NODES ->
			if
			:: atomic { owner[k] == me -> span[k] = asked[c]; good++; k++ }
			:: atomic { owner[k] != me -> told[k] = 1;
#ifdef TOP_UP_COUNTED /* a node that makes the claim anew is counted in the same round */
				if :: owner[k] == 0 -> grant(k, c, fence, n); good++ :: else fi;
#endif
				k++ }
			:: atomic { losses < LOSSES -> losses++; k++ }
			fi
		:: atomic { k == NODES -> k = 0; break }
		od;
		if
		:: atomic { good >= MAJORITY && passed[c] < asked[c] -> trust(c, fence) }
			/* quorum.Store.topUp: the missing nodes, with the fence of the lease as floor. */
			do
			:: atomic { k < NODES && told[k] == 1 && owner[k] == 0 && trusting(c) -> grant(k, c, fence, n); k++ }
			:: atomic { k < NODES -> k++ }
			:: atomic { k == NODES -> k = 0; n = 0; told[0] = 0; told[1] = 0; told[2] = 0; break }
			od
		:: atomic { else -> n = 0; told[0] = 0; told[1] = 0; told[2] = 0 } /* what it had is trusted until its deadline */
		fi
	:: atomic { trusts[c] = 0; goto lose }                /* Lease.Unlock */
	:: atomic { !trusting(c) -> trusts[c] = 0; goto lose } /* lost */
	od;

lose: /* quorum.Store.lose, Release: everywhere. Where a release is lost the claim runs out. */
	atomic {
		trusts[c] = 0; told[0] = 0; told[1] = 0; told[2] = 0; good = 0; fence = 0; n = 0; k = 0;
		do
		:: k < NODES && owner[k] == me -> owner[k] = 0; span[k] = 0; k++
		:: k < NODES && owner[k] == me && losses < LOSSES -> losses++; k++
		:: k < NODES && owner[k] != me -> k++
		:: k == NODES -> break
		od;
		k = 0; me = 0; busy[c] = false; tidy(c);
		goto end_idle
	}
}

/* What happens by itself. */
active proctype World() {
	byte k, m;
end_world:
	do
	/* Deadlines pass in order. */
	:: d_step { passed[0] < asked[0] -> passed[0]++ }
	:: d_step { passed[1] < asked[1] -> passed[1]++ }

	/* A claim runs out on a node. */
	:: d_step { owner[0] != 0 && passed[turnOf[owner[0]]] >= span[0] -> k = turnOf[owner[0]]; owner[0] = 0; span[0] = 0; tidy(k); k = 0 }
	:: d_step { owner[1] != 0 && passed[turnOf[owner[1]]] >= span[1] -> k = turnOf[owner[1]]; owner[1] = 0; span[1] = 0; tidy(k); k = 0 }
	:: d_step { owner[2] != 0 && passed[turnOf[owner[2]]] >= span[2] -> k = turnOf[owner[2]]; owner[2] = 0; span[2] = 0; tidy(k); k = 0 }

	/* A node restarts empty (birth.lua: its mark is gone too). Nodes are alike, but for the order in which they are asked. */
	:: atomic { restarts < RESTARTS ->
		restarts++;
		if :: k = 0 :: k = 1 :: k = 2 fi;
		owner[k] = 0; span[k] = 0; young = k;
		before[0] = asked[0]; before[1] = asked[1];
#ifdef NO_CLOCK_PART
		last[k] = 0;
#else
		/* The clock has gone past all fences by the time that it is up: the part of the clock in a fence. */
		m = (last[0] > last[1] -> last[0] : last[1]);
		last[k] = (m > last[2] -> m : last[2]);
		m = 0;
#endif
		k = 0 }

	/* It is as old as the longest TTL: what it forgot has ended (quorum.Options.LongestTTL). */
	:: d_step { young != NONE && passed[0] >= before[0] && passed[1] >= before[1] -> young = NONE; before[0] = 0; before[1] = 0 }
	od
}

init {
	atomic {
		run Client(0);
#ifndef ALONE /* one client alone is enough for the order of fences, and leaves room for more faults */
		run Client(1)
#endif
	}
}
