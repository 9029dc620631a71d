package promise

func remote() Section {
	const rules = "store/remote/remote_test.go:TestStore "
	return Section{
		Store: Remote, Title: "Lock server",
		Intro: "`distlock serve` passes each call on to its store and keeps no claims, so the " +
			"section of its store holds too. The tests use a SQLite file, unless they name " +
			"another store. In addition:",
		Rows: []Row{
			{
				Under: []string{"F08"},
				Fault: "the server is killed, and starts again",
				Holds: "held locks stay held, and waiters go on. A lease is lost only if the " +
					"server is away for longer than its trust",
				Tests: []Test{
					"tests/guarantees/restart_test.go:TestRestart/remote",
					"tests/guarantees/lockserver_test.go:TestLockServer_killed 1,000 locks, 8 " +
						"kills; 100 in long runs",
					"tests/proof/chaos_test.go:TestServerKills every second or two",
				},
			},
			{
				Fault: "the host of a server with a SQLite file reboots",
				Holds: "no lock is granted to a rival. A lease is lost only if the server is away " +
					"for longer than its trust",
				Tests: []Test{"tests/guarantees/lockserver_between_test.go:TestLockServer_reboot 1,000 locks"},
			},
			{
				Fault: "one of two servers on one store ends",
				Holds: "holders and waiters go on through the other one. One owner may use both " +
					"at once",
				Tests: []Test{
					"tests/guarantees/restart_test.go:TestRestart/remote,_one_of_two",
					"tests/guarantees/lockserver_test.go:TestLockServer_pair/remote,_redis each call " +
						"goes to a random one",
					"tests/guarantees/lockserver_test.go:TestLockServer_pair/remote,_postgres",
					"tests/guarantees/lockserver_test.go:TestLockServer_pair/remote,_sqlite",
					"tests/proof/chaos_test.go:TestChaos each call goes to a random one",
					"store/remote/watch_test.go:TestStore_Watch_follows",
				},
			},
			{
				Fault: "a server is stopped, its caller repeats the call at another, and it goes on",
				Holds: "the owner has one claim, and keeps it",
				Tests: []Test{"tests/guarantees/lockserver_test.go:TestLockServer_resumed on Redis"},
			},
			{
				Under: []string{"F09"},
				Fault: "the server has another store, or two servers of an address have two",
				Holds: "calls are refused, and the error names both stores. A client takes a new " +
					"store when no claim can be trusted any more, and never with `store_id`",
				Tests: []Test{
					"store/remote/servers_test.go:TestStore_other_store",
					"store/remote/servers_test.go:TestStore_other_store_back",
					"store/remote/servers_test.go:TestStore_replaced",
					"tests/guarantees/lockserver_between_test.go:TestLockServer_two_stores",
					"server/server_test.go:TestServer_identity",
				},
			},
			{
				Fault: "a store that undoes its own grants, or whose claims end with a connection",
				Holds: "the server refuses to serve it",
				Tests: []Test{"server/server_test.go:TestNew_refuses"},
			},
			{
				Fault: "answers of a proxy: 502, 503, a redirect, an empty message",
				Holds: `the outcome is unknown, never "held", "not held" or "unavailable"`,
				Tests: []Test{"store/remote/servers_test.go:TestStore_proxy"},
			},
			{
				Fault: "a proxy delivers calls twice, or late",
				Holds: "one holder at a time. A late Acquire may hold a lock for one TTL that " +
					"nobody knows of",
				Tests: []Test{"tests/guarantees/lockserver_between_test.go:TestLockServer_delivered"},
			},
			{
				Fault: "the network forgets connections without an error",
				Holds: "one call has an unknown outcome, and the next one a new connection",
				Tests: []Test{"store/remote/servers_test.go:TestStore_lost_connections"},
			},
			{
				Under: []string{"F04", "F05", "F06"},
				Fault: "the holder is cut off from the server, in one direction or in both",
				Holds: "the holder is notified before a rival is granted",
				Tests: []Test{"tests/guarantees/link_test.go:TestCutOff/remote"},
			},
			{
				Under: []string{"F07"},
				Fault: "a waiter is cut off",
				Holds: "it retries when the link is back",
				Tests: []Test{"tests/guarantees/link_test.go:TestCutOff_waiter/remote"},
			},
			{
				Under: []string{"F01", "F02"},
				Fault: "crash or pause of the holder",
				Holds: "the lock stays held until its TTL expires. The first check after a pause " +
					"fails",
				Tests: []Test{
					"tests/guarantees/pause_test.go:TestPause_holder/remote",
					"tests/guarantees/history_test.go:TestHistory/remote",
				},
			},
			{
				Under: []string{"F03"},
				Fault: "suspended host of the holder",
				Holds: "the time counts (Linux)",
				Tests: []Test{"internal/keeper/clock_test.go:TestClock_counts_the_time_asleep"},
			},
			{Under: []string{"F17"}, Fault: "a client's clock is wrong", Holds: wrongClockHolds, Tests: wrongClock},
			{
				Under: []string{"F18"},
				Fault: "slow link, or a server that hangs",
				Holds: "no lease is returned whose trust has ended. Calls end with their context",
				Tests: []Test{
					"tests/guarantees/link_test.go:TestSlow/remote",
					"tests/guarantees/closed_test.go:TestBound_serverHangs/remote",
					"tests/guarantees/pause_test.go:TestPause_server",
				},
			},
			{
				Under: []string{"F19"},
				Fault: "reply lost, late or cut off",
				Holds: "the outcome is unknown, and the same call, repeated, is answered",
				Tests: []Test{
					"store/remote/remote_test.go:TestStore_faults",
					"store/remote/sent_test.go:TestStore_sent_once",
					"tests/guarantees/lockserver_delayed_test.go:TestLockServer_delayed up to 20 s, " +
						"after a wait",
					"tests/guarantees/cut_test.go:TestCut/remote",
				},
			},
			{
				Under: []string{"F20", "F21", "F22", "F23"},
				Fault: "released twice, by another, or late; a waiter dies in the queue",
				Holds: "as on the server's store",
				Tests: []Test{rules + `rules "stale", "ended", "expired entry"`},
			},
			{
				Under: []string{"F24"},
				Fault: "many waiters for one name",
				Holds: "all are served, one by one. The watches of a process share one stream",
				Tests: []Test{
					"tests/guarantees/herd_test.go:TestHerd/remote",
					"store/remote/watch_test.go:TestStore_Watch_one_stream",
				},
			},
			{
				Under: []string{"F30"},
				Fault: "all notifications lost, or a proxy without HTTP/2",
				Holds: "waiters retry within the poll interval",
				Tests: []Test{
					"tests/guarantees/link_test.go:TestDeaf/remote",
					"store/remote/watch_test.go:TestStore_Watch_none",
				},
			},
		},
		Absent: []Absence{
			{
				[]string{"F10", "F11", "F12", "F13", "F14", "F28", "F31", "F37"},
				"the server has no replicas: see the section of its store",
			},
			{
				[]string{"F15", "F16", "F25", "F26", "F27", "F35", "F36"},
				"the server has no data and reads no clock for a claim: see the section of its store",
			},
			{[]string{"F29", "F34", "F38"}, "a client has connections of its own, and no password"},
		},
		Tail: "[Why](adr/0037-server.md).",
	}
}
