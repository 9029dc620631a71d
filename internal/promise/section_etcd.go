package promise

// etcdRules returns the test of the rules of the contract, with the rules that matter.
func etcdRules(words string) []Test {
	return []Test{Test("store/etcd/etcd_test.go:TestStore " + words)}
}

// etcdCluster are the tests of three members that are killed, stopped and led by others.
var etcdCluster = []Test{"store/etcd/cluster_test.go:TestCluster"}

// etcdHistory is the test whose history a checker verifies.
var etcdHistory = []Test{"tests/guarantees/history_test.go:TestHistory_members/etcd"}

const etcdClock = "leases are counted by the leader's monotonic clock"

func etcd() Section {
	return Section{
		Store: Etcd, Title: "etcd",
		Intro: "`store/etcd`: claims are keys with a lease, and a majority of the members has every " +
			"grant. Tested on real clusters of one and of three members:",
		Rows: append(etcdClients(), etcdServers()...),
		Absent: []Absence{
			{[]string{"F10", "F11"}, "a majority has every grant before it is answered, and elects one leader"},
			{[]string{"F14"}, "the others do not accept a member that has lost its data"},
			{[]string{"F15", "F16"}, etcdClock},
			{[]string{"F27", "F28"}, "every member takes writes, and passes them to the leader"},
			{[]string{"F29", "F34"}, "all calls of a process share one connection to a member"},
		},
		Tail: "[Why](adr/0034-etcd.md).",
	}
}

// etcdClients are the faults of clients and of the network.
func etcdClients() []Row {
	faults := func(words string) []Test {
		return []Test{Test("store/etcd/etcd_test.go:TestStore_faults " + words)}
	}
	return []Row{
		{
			Under: []string{"F01", "F02"},
			Fault: "crash or pause of the holder",
			Holds: "free when the lease ends, up to a second after the TTL, and up to two seconds after a TTL of 10 s or more. The next fence is higher",
			Tests: etcdRules(`rules "expiry", "fence"`),
		},
		{
			Under: []string{"F03"},
			Fault: "suspended host",
			Holds: "the holder sees the loss at its first check",
			Tests: asleep,
		},
		{
			Under: []string{"F04", "F05", "F06"},
			Fault: "holder cut off: both directions, only replies, only requests",
			Holds: "the holder is notified before another process gets the lock",
			Tests: []Test{"store/etcd/trouble_test.go:TestStore_cut_off", "tests/guarantees/link_test.go:TestCutOff/etcd 20 partitions"},
		},
		{
			Under: []string{"F07", "F30"},
			Fault: "waiter cut off, notifications lost",
			Holds: "the watch is ready when the connection is back, and waiters try from time to time without it. " +
				"A watch that is silent without an error is replaced after 15 s at most",
			Tests: append(faults("every breakage ends with a watch"), "store/etcd/cluster_test.go:TestCluster", "store/etcd/stream_test.go:TestWatch_silent",
				"tests/guarantees/link_test.go:TestCutOff_waiter/etcd", "tests/guarantees/link_test.go:TestDeaf/etcd"),
		},
		{
			Under: []string{"F31"},
			Fault: "the history is compacted every 100 ms",
			Holds: "waiters are served: a watch that lost its revision reads the keys again",
			Tests: etcdCluster,
		},
		{
			Under: []string{"F17"},
			Fault: "a client's clock is wrong",
			Holds: wrongClockHolds + ". Only the age of a claim, for people, is wrong",
			Tests: wrongClock,
		},
		{
			Under: []string{"F18", "F19"},
			Fault: "a reply is late, lost, or cut at any byte",
			Holds: `the call returns "unknown". A repeated request repairs it: one grant, one fence. ` +
				`A late answer to a keep-alive is not counted for a later one`,
			Tests: append(faults(""), "store/etcd/lease_test.go:TestStream_order",
				"tests/guarantees/cut_test.go:TestCut/etcd", "tests/guarantees/link_test.go:TestSlow/etcd"),
		},
		{
			Under: []string{"F20", "F21", "F22"},
			Fault: "released twice, by another, or late",
			Holds: `the call returns "not held" and changes nothing`,
			Tests: etcdRules(`rules "stale", "ended"`),
		},
		{
			Under: []string{"F23"},
			Fault: "a waiter dies in the queue",
			Holds: "the next waiter is served when the dead waiter's queue entry ends, after 2 s at the earliest",
			Tests: etcdRules(`rule "expired entry"`),
		},
		{
			Under: []string{"F24"},
			Fault: "200 waiters for one name; two processes with 250 waiters each",
			Holds: "all have a position, in order of arrival, and are served. The cost of a call does not grow with the queue",
			Tests: append(etcdRules(`rule "long queue"`), "store/etcd/stream_test.go:TestStore_long_queue", "tests/guarantees/herd_test.go:TestHerd/etcd"),
		},
		{
			Under: []string{"F35", "F36"},
			Fault: "keys are deleted by hand; keys of others below the prefix",
			Holds: "the holder is notified at its next renewal. Another process may get the lock before " +
				"that. Fences rise. Keys that are no claims are ignored",
			Tests: []Test{"store/etcd/trouble_test.go:TestStore_foreign_keys"},
		},
		{
			Under: []string{"F38"},
			Fault: "the password is replaced while a lock is held",
			Holds: "calls with the old password: unavailable. The lease is lost when its trust ends",
			Tests: []Test{"store/etcd/trouble_test.go:TestStore_password"},
		},
	}
}

// etcdServers are the faults of members.
func etcdServers() []Row {
	return []Row{
		{
			Under: []string{"F08", "F25"},
			Fault: "crash of the only member",
			Holds: "unavailable until it is back. Held locks survive, fences rise",
			Tests: []Test{"store/etcd/trouble_test.go:TestStore_restart"},
		},
		{
			Under: []string{"F12", "F37"},
			Fault: "one of three members is killed, stopped or cut off, the leader or another; the leader moves 50 times",
			Holds: "one holder at a time, fences rise, held locks survive. No client needs a restart. " +
				"Clients that reach only the member that is cut off lose their locks before others get them",
			Tests: []Test{"store/etcd/cluster_test.go:TestCluster", "store/etcd/partition_test.go:TestCluster_partition"},
		},
		{
			Under: []string{"F13"},
			Fault: "a majority of the members is stopped",
			Holds: `calls fail, and none is answered "held". Held locks survive: a new leader gives every lease its whole TTL`,
			Tests: []Test{"store/etcd/cluster_test.go:TestCluster_minority"},
		},
		{
			Under: []string{"F09"},
			Fault: "the cluster is replaced by an empty one, or restored from a backup",
			Holds: "claims are forgotten: **two holders**. Fences start again from a **lower** number",
			Tests: []Test{"store/etcd/trouble_test.go:TestStore_replaced"},
		},
		{
			Under: []string{"F26"},
			Fault: "the database is full (NOSPACE)",
			Holds: "no lock is acquired: unavailable, nothing is changed. Held locks are renewed and released",
			Tests: []Test{"store/etcd/fault_test.go:TestStore_full"},
		},
	}
}
