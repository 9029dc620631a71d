/*
 * Redlock with fences (fencing tokens): three nodes, two clients, one node that restarts empty.
 *
 * Time is as in lease.pml: a claim may expire on a node only when its client's own deadline for that
 * span has passed. Every call to a node may be lost before or after it took effect, within a bound.
 * The fence that a client proposes from its own clock is left out: clocks may be arbitrarily wrong,
 * and only the data that the nodes have stored decides.
 *
 * What must hold:
 *   I2  every grant has a higher fence than all before, also after a node forgot
 *   I3  no two clients trust their lease at once, also when a node forgot
 */
#ifndef TRIES
#define TRIES 3 /* attempts to acquire, in total */
#endif
#ifndef LOSSES
#define LOSSES 1 /* calls to a node that are lost, in total */
#endif
#ifndef RENEWALS
#define RENEWALS 1
#endif
#ifndef RESTARTS
#define RESTARTS 1
#endif
#define NODES 3
#define NONE  3 /* no node */
#ifdef QUORUM_HALF /* N/2 instead of N/2+1 */
#define MAJORITY 1
#else
#define MAJORITY 2 /* quorum.Store.majority */
#endif

/* The nodes. */
byte owner[NODES];
byte span[NODES];
byte last[NODES];
byte restarted = NONE; /* the node that has restarted, while it may have forgotten a claim */

/* The clients. An owner is a try; clientOf is its client. */
byte clientOf[TRIES + 1];
byte begun[2];
byte passed[2];
byte trusts[2];
byte before[2]; /* spans begun before the restart */

byte tries = 0, losses = 0, renewals = 0, restarts = 0;
byte highest = 0; /* ghost: the highest fence that was granted */

#define trusting(c) (trusts[c] > passed[c])
#define lives(c)    (owner[0] != 0 && clientOf[owner[0]] == c || owner[1] != 0 && clientOf[owner[1]] == c || owner[2] != 0 && clientOf[owner[2]] == c)

/* Data of the past is cleared, so that states that differ only in the past are the same state. */
inline normalize(c) {
	if
	:: !busy[c] && trusts[c] == 0 && !lives(c) -> begun[c] = 0; passed[c] = 0; before[c] = 0
	:: else
	fi
}
bool busy[2]; /* the client makes an attempt */

/* A node's own answer (acquire.lua): max(floor, last + 1). The same owner gets the same claim
   again. */
inline grant(k, c, floor, out) {
	if
	:: owner[k] == me -> last[k] = (last[k] > floor -> last[k] : floor)
	:: else -> last[k] = (last[k] + 1 > floor -> last[k] + 1 : floor)
	fi;
	owner[k] = me;
	span[k] = begun[c];
	out = last[k]
}

inline trust(c, fence) {
	trusts[c] = begun[c];
	assert(!trusting(c) || fence >= highest); /* a hold does not continue during another's grant */
	assert(!trusting(c) || !trusting(1 - c)) /* I3 */
}

proctype Client(byte c) {
	byte me, k, n, good, fence;
	byte answer[NODES]; /* the fence that each node returned; 0: none that counts */
end_idle:
	atomic { tries < TRIES && c <= tries-> /* clients are alike: the first try is the first client's */
		tries++; me = tries; clientOf[me] = c; begun[c]++; busy[c] = true;
		answer[0] = 0; answer[1] = 0; answer[2] = 0; good = 0; fence = 0;
		/* Nodes answer in any order: the try begins with any node. Nodes are alike: the first
		   try begins with the first. */
		if :: k = 0 :: tries > 1 -> k = 1 :: tries > 1 -> k = 2 fi;
		n = 0 }

	/* quorum.Store.Acquire: all nodes. */
	do
	:: n < NODES ->
		if
		:: atomic { owner[k] == 0 -> grant(k, c, 0, answer[k]);
#ifndef RESTARTED_COUNTED /* quorum.Store.count: a node that may have forgotten does not count */
			if :: restarted == k -> answer[k] = 0 :: else fi;
#endif
			k = (k + 1) % NODES; n++ }
		/* The answer is lost. */
		:: atomic { owner[k] == 0 && losses < LOSSES -> losses++; grant(k, c, 0, answer[k]); answer[k] = 0; k = (k + 1) % NODES; n++ }
		:: atomic { owner[k] != 0 -> k = (k + 1) % NODES; n++ }                      /* refused */
		/* The request is lost. */
		:: atomic { losses < LOSSES -> losses++; k = (k + 1) % NODES; n++ }
		fi
	:: atomic { n == NODES -> n = 0; k = 0; break }
	od;

	/* quorum.Store.fence: the highest fence of the lowest majority of the answers that count. */
	atomic {
		good = (answer[0] > 0) + (answer[1] > 0) + (answer[2] > 0);
		if
		:: good < MAJORITY -> goto lose
		:: good >= MAJORITY
		fi;
		if
		:: good == 3 -> /* the middle one */
			fence = (answer[0] > answer[1] -> answer[0] : answer[1]); /* the higher of two */
			n = (answer[0] > answer[1] -> answer[1] : answer[0]);     /* the lower of two */
			fence = (answer[2] >= fence -> fence : (answer[2] > n -> answer[2] : n));
			n = 0
		:: else ->
			fence = (answer[0] > answer[1] -> answer[0] : answer[1]);
			fence = (fence > answer[2] -> fence : answer[2])
		fi
	}
#ifndef NO_WRITE_BACK
	/* quorum.Store.writeBack: nodes that granted with a lower fence are called again, until a
	   majority has stored it. */
	do
	:: k < NODES ->
		if
		:: atomic { answer[k] == 0 || answer[k] >= fence -> k++ }
		:: atomic { answer[k] > 0 && answer[k] < fence && (owner[k] == 0 || owner[k] == me) ->
			grant(k, c, fence, answer[k]);
#ifndef RESTARTED_COUNTED
			if :: restarted == k -> answer[k] = 0 :: else fi;
#endif
			k++ }
		:: atomic { answer[k] > 0 && answer[k] < fence && (losses < LOSSES || owner[k] != 0 && owner[k] != me) ->
			if :: owner[k] == 0 || owner[k] == me -> losses++ :: else fi; answer[k] = 0; k++ } /* lost, or refused: the claim expires */
		fi
	:: atomic { k == NODES ->
		k = 0;
		good = (answer[0] >= fence) + (answer[1] >= fence) + (answer[2] >= fence);
		if
		:: good < MAJORITY -> goto lose
		:: good >= MAJORITY -> break
		fi }
	od;
#endif

	/* Trust is counted from before the request was sent: an answer after the deadline does not
	   count (keeper.Hold.Trusted). */
	atomic {
#ifdef LATE_COUNTED /* trust begins with the last answer */
		begun[c]++;
#endif
		if
		:: passed[c] >= begun[c] -> goto lose
		:: else -> trust(c, fence); assert(fence > highest); highest = fence /* I2 */
		fi
	};

	/* held */
	do
	:: atomic { trusting(c) && renewals < RENEWALS -> renewals++; begun[c]++; n = 0; good = 0; k = 0; answer[0] = 0; answer[1] = 0; answer[2] = 0; }
		/* quorum.Store.RenewAll: a node without the claim does not renew it. */
		do
		:: k < NODES ->
			if
			:: atomic { owner[k] == me -> span[k] = begun[c]; good++; k++ }
			:: atomic { owner[k] != me -> answer[k] = 1;
#ifdef TOP_UP_COUNTED /* a node that creates the claim again counts in the same round */
				if :: owner[k] == 0 -> grant(k, c, fence, n); good++ :: else fi;
#endif
				k++ }
			:: atomic { losses < LOSSES -> losses++; k++ }
			fi
		:: atomic { k == NODES -> k = 0; break }
		od;
		if
		:: atomic { good >= MAJORITY && passed[c] < begun[c] -> trust(c, fence) }
			/* quorum.Store.topUp: the nodes without the claim, with the fence of the lease as
			   floor. */
			do
			:: atomic { k < NODES && answer[k] == 1 && owner[k] == 0 && trusting(c) -> grant(k, c, fence, n); k++ }
			:: atomic { k < NODES -> k++ }
			:: atomic { k == NODES -> k = 0; n = 0; answer[0] = 0; answer[1] = 0; answer[2] = 0; break }
			od
		/* The earlier span is trusted until its deadline. */
		:: atomic { else -> n = 0; answer[0] = 0; answer[1] = 0; answer[2] = 0 }
		fi
	:: atomic { trusts[c] = 0; goto lose }                /* Lease.Unlock */
	:: atomic { !trusting(c) -> trusts[c] = 0; goto lose } /* lost */
	od;

lose: /* quorum.Store.lose, Release: on all nodes. Where a release is lost, the claim expires. */
	atomic {
		trusts[c] = 0; answer[0] = 0; answer[1] = 0; answer[2] = 0; good = 0; fence = 0; n = 0; k = 0;
		do
		:: k < NODES && owner[k] == me -> owner[k] = 0; span[k] = 0; k++
		:: k < NODES && owner[k] == me && losses < LOSSES -> losses++; k++
		:: k < NODES && owner[k] != me -> k++
		:: k == NODES -> break
		od;
		k = 0; me = 0; busy[c] = false; normalize(c);
		goto end_idle
	}
}

/* Events that no client causes. */
active proctype World() {
	byte k, m;
end_world:
	do
	/* Deadlines pass in order. */
	:: d_step { passed[0] < begun[0] -> passed[0]++ }
	:: d_step { passed[1] < begun[1] -> passed[1]++ }

	/* A claim expires on a node. */
	:: d_step { owner[0] != 0 && passed[clientOf[owner[0]]] >= span[0] -> k = clientOf[owner[0]]; owner[0] = 0; span[0] = 0; normalize(k); k = 0 }
	:: d_step { owner[1] != 0 && passed[clientOf[owner[1]]] >= span[1] -> k = clientOf[owner[1]]; owner[1] = 0; span[1] = 0; normalize(k); k = 0 }
	:: d_step { owner[2] != 0 && passed[clientOf[owner[2]]] >= span[2] -> k = clientOf[owner[2]]; owner[2] = 0; span[2] = 0; normalize(k); k = 0 }

	/* A node restarts empty (birth.lua: its mark is gone too). Nodes are alike, except for the
	   order of the calls. */
	:: atomic { restarts < RESTARTS ->
		restarts++;
		if :: k = 0 :: k = 1 :: k = 2 fi;
		owner[k] = 0; span[k] = 0; restarted = k;
		before[0] = begun[0]; before[1] = begun[1];
#ifdef NO_CLOCK_PART
		last[k] = 0;
#else
		/* A fence contains the clock: when the node is up again, its clock is past all fences. */
		m = (last[0] > last[1] -> last[0] : last[1]);
		last[k] = (m > last[2] -> m : last[2]);
		m = 0;
#endif
		k = 0 }

	/* The node is as old as the longest TTL: the claims that it forgot have ended
	   (quorum.Options.LongestTTL). */
	:: d_step { restarted != NONE && passed[0] >= before[0] && passed[1] >= before[1] -> restarted = NONE; before[0] = 0; before[1] = 0 }
	od
}

init {
	atomic {
		run Client(0);
#ifndef ALONE /* one client is enough for the order of fences, and allows more faults within the bounds */
		run Client(1)
#endif
	}
}
