package promise

func memory() Section {
	rules := func(words string) []Test {
		return []Test{Test("store/mem/mem_test.go:TestStore " + words)}
	}
	return Section{
		Store: Memory, Title: "Memory",
		Intro: "`store/mem`: locks within one process, and the model that other stores are " +
			"compared with. Tested in virtual time:",
		Rows: []Row{
			{
				Under: []string{"F03"},
				Fault: "suspended host",
				Holds: "holders are notified of the loss. The store's own clock stops during " +
					"the suspension, so the claim of a dead holder expires later",
				Tests: asleep,
			},
			{
				Under: []string{"F15", "F16"},
				Fault: "the time of day is set",
				Holds: "no effect on holders: the store reads the monotonic clock. Fences rise, " +
					"because the store remembers the last one",
				Tests: []Test{"store/mem/clock_test.go:TestStore_time_of_day"},
			},
			{
				Under: []string{"F17"},
				Fault: "a client's clock is wrong",
				Holds: wrongClockHolds,
				Tests: wrongClock,
			},
			{
				Under: []string{"F01"},
				Fault: "a holder ends without releasing",
				Holds: "free when the TTL expires",
				Tests: []Test{"wait_test.go:TestLocker_Lock_succeedsCrash"},
			},
			{
				Under: []string{"F20", "F21", "F22"},
				Fault: "released twice, by another, or late",
				Holds: `the call returns "not held" and changes nothing`,
				Tests: rules(`rules "stale", "ended"`),
			},
			{
				Under: []string{"F23"},
				Fault: "a waiter ends without leaving the queue",
				Holds: "the next waiter is served when the dead waiter's queue entry expires",
				Tests: []Test{
					"wait_test.go:TestLocker_Lock_passesDeadWaiter",
					`store/mem/mem_test.go:TestStore rule "expired entry"`,
				},
			},
			{
				Under: []string{"F24"},
				Fault: "many waiters for one name",
				Holds: "all are served",
				Tests: []Test{"locker_test.go:TestLocker_stress"},
			},
			{
				Under: []string{"F30"},
				Fault: "all wake-ups lost",
				Holds: "waiters retry within the poll interval",
				Tests: []Test{"wait_test.go:TestLocker_Lock_wakeUpLost"},
			},
			{
				Under: []string{"F35"},
				Fault: "claims broken by hand",
				Holds: "the holder is notified at its next renewal, with the reason. Fences rise",
				Tests: []Test{"status_test.go:TestClaims_break"},
			},
		},
		Absent: []Absence{
			{[]string{"F02", "F08", "F09"}, "the store starts, pauses and ends with its process"},
			{
				[]string{"F04", "F05", "F06", "F07", "F18", "F19", "F29", "F34", "F38"},
				"there is no network link",
			},
			{
				[]string{"F10", "F11", "F12", "F13", "F14", "F27", "F28", "F31", "F37"},
				"there is one store, and it is not replicated",
			},
			{
				[]string{"F25", "F26", "F36"},
				"all data is the store's own, in the memory of the process",
			},
		},
	}
}

func sqlite() Section {
	rules := func(words string) []Test {
		return []Test{Test("store/sqlite/sqlite_test.go:TestStore_two " + words)}
	}
	return Section{
		Store: SQLite, Title: "SQLite, a file of one host",
		Intro: "`store/sqlite`: processes of one host share a file. Tested on real files:",
		Rows: []Row{
			{
				Under: []string{"F01"},
				Fault: "crash or `kill -9` of a process at any instant",
				Holds: "one holder at a time, fences rise. A granted lock stays held until its " +
					"TTL expires",
				Tests: []Test{
					"store/sqlite/process_test.go:TestProcesses_killed",
					"store/sqlite/process_test.go:TestProcesses_count",
					"tests/kinds/semaphore_test.go:TestSemaphore_kill/sqlite",
				},
			},
			{
				Under: []string{"F02"},
				Fault: "pause of the holder",
				Holds: "its first check of the lease fails. A late write with a fence is " +
					"refused, a late write without a fence overwrites",
				Tests: []Test{"fence/pause_test.go:TestPausedHolder"},
			},
			{
				Under: []string{"F15", "F16"},
				Fault: "the time of day is set",
				Holds: "no effect on holders (Linux, macOS). Fences rise, because the last one " +
					"is in the file",
				Tests: []Test{
					"store/sqlite/fault_test.go:TestStore_time_of_day",
					"store/sqlite/fault_test.go:TestStore_swept_fences_stay_below",
				},
			},
			{
				Under: []string{"F17"},
				Fault: "a client's clock is wrong",
				Holds: wrongClockHolds,
				Tests: wrongClock,
			},
			{
				Under: []string{"F24"},
				Fault: "processes that compete all the time",
				Holds: "no process starves",
				Tests: []Test{
					"store/sqlite/contend_test.go:TestProcesses_fair",
					"store/sqlite/contend_test.go:TestProcesses_fifty",
				},
				Measured: "four processes had even shares of the lock: Jain index 0.95 and more",
			},
			{
				Under: []string{"F03"},
				Fault: "suspended machine",
				Holds: "the time counts, both for holders and for the file (Linux)",
				Tests: []Test{
					"internal/keeper/clock_test.go:TestClock_counts_the_time_asleep holders and " +
						"the file read this clock",
				},
			},
			{
				Under: []string{"F08", "F09"},
				Fault: "reboot",
				Holds: "all locks are free. Fences rise",
				Tests: []Test{
					"store/sqlite/fault_test.go:TestStore_reboot",
					"store/sqlite/boot_test.go:TestOpen_boot_many",
				},
			},
			{
				Under: []string{"F08", "F09"},
				Fault: "reboot with `holders=remote`, or a move of the file to another host",
				Holds: "locks are held for their whole TTL again. Records keep the rest of " +
					"their life by the time of day. Fences rise",
				Tests: []Test{
					"store/sqlite/remote_test.go:TestStore_remote_reboot",
					"store/sqlite/remote_test.go:TestStore_remote_later",
				},
			},
			{
				Fault: "a container that hides the boot_id, or has its own",
				Holds: "hidden boot_id: opening the file fails. Own boot_id: opening fails " +
					"while another process has the file open",
				Tests: []Test{
					"store/sqlite/boot_linux_test.go:TestOpen_boot_hidden",
					"store/sqlite/boot_test.go:TestOpen_boot_of_a_container",
				},
			},
			{
				Fault: "power failure",
				Holds: "the same as a reboot. Without `Options.Full` the last fences may be " +
					"lost; new fences then rise because they follow the clock",
				Tests: []Test{
					"store/sqlite/fault_test.go:TestStore_reboot",
					"store/sqlite/fault_test.go:TestStore_swept_fences_stay_below the power " +
						"stays on",
				},
			},
			{
				Under: []string{"F26"},
				Fault: "full disk",
				Holds: "unavailable, nothing is changed. The store recovers when the disk has " +
					"free space",
				Tests: []Test{"store/sqlite/full_linux_test.go:TestStore_full_disk"},
			},
			{
				Under: []string{"F18"},
				Fault: "a process keeps the file locked, for example because it was stopped " +
					"(SIGSTOP, Ctrl-Z, a debugger) in the middle of a call",
				Holds: `calls return "unavailable" after a quarter of the TTL, at most 2 s, and ` +
					`never "held". Leases of all processes are lost if they cannot be renewed ` +
					`in time`,
				Tests: []Test{"store/sqlite/fault_test.go:TestStore_busy"},
			},
			{
				Under: []string{"F35"},
				Fault: "the file is removed or replaced",
				Holds: "holders are notified at their next renewal or release. Status calls " +
					"read the new file",
				Tests: []Test{
					"store/sqlite/fault_test.go:TestStore_file_replaced",
					"store/sqlite/fault_test.go:TestStore_file_removed_without_its_log",
				},
			},
			{
				Under: []string{"F20", "F21", "F22"},
				Fault: "released twice, by another, or late",
				Holds: `the call returns "not held" and changes nothing`,
				Tests: rules(`rules "stale", "ended"`),
			},
			{
				Under: []string{"F23"},
				Fault: "a waiter dies in the queue",
				Holds: "the next waiter is served when the dead waiter's queue entry expires",
				Tests: rules(`rule "expired entry"`),
			},
			{
				Under: []string{"F30"},
				Fault: "all wake-ups lost",
				Holds: "waiters retry within the poll interval",
				Tests: []Test{"tests/guarantees/link_test.go:TestDeaf/sqlite"},
			},
			{
				Under: []string{"F36", "F27"},
				Fault: "network file system, symbolic link, hard link, a file mounted alone " +
					"(Linux), a file that other users may open, read-only file, newer layout",
				Holds: "opening fails, with the reason",
				Tests: []Test{
					"store/sqlite/fault_test.go:TestOpen_refuses",
					"store/sqlite/mount_linux_test.go:TestOpen_mounted_file",
				},
			},
		},
		Absent: []Absence{
			{
				[]string{"F04", "F05", "F06", "F07", "F19", "F29", "F34", "F38"},
				"there is no network link",
			},
			{
				[]string{"F10", "F11", "F12", "F13", "F14", "F28", "F31", "F37"},
				"there is one file, and it is not replicated",
			},
			{[]string{"F25"}, "a file evicts nothing; only its disk can be full"},
		},
		Tail: "Not promised: anything about a file that two kernels write; claims in a file " +
			"that no process has open when a container with its own boot_id opens it. On " +
			"systems other than Linux and macOS, claims expire by the time of " +
			"day.\n[Why](adr/0010-sqlite.md).",
	}
}
