package promise

func memory() Section {
	rules := func(words string) []Test { return []Test{Test("store/mem/mem_test.go:TestStore " + words)} }
	return Section{
		Store: Memory, Title: "Memory",
		Intro: "`store/mem`: the locks of one process, and the model that other stores are compared with. Shown in virtual time:",
		Rows: []Row{
			{[]string{"F03"}, "suspended host", "holders are told of the loss. The store's own clock stands still, so a dead holder is succeeded later", asleep, ""},
			{[]string{"F15", "F16"}, "the time of day is set", "no effect on who holds: it reads the monotonic clock; fences rise, for the last one is remembered",
				[]Test{"store/mem/clock_test.go:TestStore_time_of_day"}, ""},
			{[]string{"F17"}, "a client's clock is wrong", wrongClockHolds, wrongClock, ""},
			{[]string{"F01"}, "a holder goes without releasing", "free when its TTL is over", []Test{"wait_test.go:TestLocker_Lock_succeedsCrash"}, ""},
			{[]string{"F20", "F21", "F22"}, "released twice, by another, or late", "not held, and nothing is changed", rules(`rules "stale", "ended"`), ""},
			{[]string{"F23"}, "a waiter goes without leaving the line", "the next one is served when the place is over",
				[]Test{"wait_test.go:TestLocker_Lock_passesDeadWaiter", `store/mem/mem_test.go:TestStore rule "expired entry"`}, ""},
			{[]string{"F24"}, "a crowd waits for one key", "all are served", []Test{"locker_test.go:TestLocker_stress"}, ""},
			{[]string{"F30"}, "all wake-ups lost", "those who wait ask again within the poll", []Test{"wait_test.go:TestLocker_Lock_wakeUpLost"}, ""},
			{[]string{"F35"}, "claims broken by hand", "the holder is told why at its next renewal; fences rise", []Test{"claims_test.go:TestClaims_break"}, ""},
		},
		Absent: []Absence{
			{[]string{"F02", "F08", "F09"}, "the store stops, ends and begins with its process"},
			{[]string{"F04", "F05", "F06", "F07", "F18", "F19", "F29", "F34", "F38"}, "there is no link"},
			{[]string{"F10", "F11", "F12", "F13", "F14", "F27", "F28", "F31", "F37"}, "there is one store, and it is not replicated"},
			{[]string{"F25", "F26", "F36"}, "it has no data but its own, in the memory of the process"},
		},
	}
}

func sqlite() Section {
	rules := func(words string) []Test { return []Test{Test("store/sqlite/sqlite_test.go:TestStore_two " + words)} }
	return Section{
		Store: SQLite, Title: "SQLite, a file of one host",
		Intro: "`store/sqlite`: processes of one host share a file. Shown on real files:",
		Rows: []Row{
			{[]string{"F01"}, "crash or `kill -9` of a process at any instant", "spans disjoint, fences rise; what it was told to hold stays held until its TTL is over", []Test{
				"store/sqlite/process_test.go:TestProcesses_killed", "store/sqlite/process_test.go:TestProcesses_count", "tests/kinds/semaphore_test.go:TestSemaphore_kill/sqlite",
			}, ""},
			{[]string{"F02"}, "pause of the holder", "it refuses its first guarded action; a fenced write of it is refused, an unfenced one overwrites", []Test{"fence/pause_test.go:TestPausedHolder"}, ""},
			{[]string{"F15", "F16"}, "the time of day is set", "no effect on who holds (Linux, macOS); fences rise, for the last one is in the file", []Test{
				"store/sqlite/fault_test.go:TestStore_time_of_day", "store/sqlite/fault_test.go:TestStore_swept_fences_stay_below",
			}, ""},
			{[]string{"F17"}, "a client's clock is wrong", wrongClockHolds, wrongClock, ""},
			{[]string{"F24"}, "processes that contend all the time", "nobody is starved", []Test{
				"store/sqlite/contend_test.go:TestProcesses_fair", "store/sqlite/contend_test.go:TestProcesses_fifty",
			}, "four had the key evenly, by a Jain index of 0.95 and more"},
			{[]string{"F03"}, "suspended machine", "the time counts, for holders and for the file alike (Linux)", []Test{
				"internal/keeper/clock_test.go:TestClock_counts_the_time_asleep both read this clock",
			}, ""},
			{[]string{"F08", "F09"}, "reboot", "everything is free, fences rise", []Test{
				"store/sqlite/fault_test.go:TestStore_reboot", "store/sqlite/boot_test.go:TestOpen_boot_crowd",
			}, ""},
			{nil, "a container that hides the boot_id, or has one of its own", "refused when it is opened; with one of its own, for as long as another has the file open", []Test{
				"store/sqlite/boot_linux_test.go:TestOpen_boot_hidden", "store/sqlite/boot_test.go:TestOpen_boot_of_a_container",
			}, ""},
			{nil, "power failure", "as a reboot. Without `Options.Full` the last fences may be forgotten: then the clock keeps them rising", []Test{
				"store/sqlite/fault_test.go:TestStore_reboot", "store/sqlite/fault_test.go:TestStore_swept_fences_stay_below no power is cut",
			}, ""},
			{[]string{"F26"}, "full disk", "unavailable, nothing is changed; it heals when there is room", []Test{"store/sqlite/full_linux_test.go:TestStore_full_disk"}, ""},
			{[]string{"F18"}, "somebody keeps the file, such as a process that is stopped (SIGSTOP, Ctrl-Z, a debugger) in the middle of a call", "unavailable after a quarter of the TTL, at most 2 s; never held. Leases that cannot be renewed for so long are lost, of every process", []Test{"store/sqlite/fault_test.go:TestStore_busy"}, ""},
			{[]string{"F35"}, "the file is removed or replaced", "holders are told of the loss by their next renewal or release; those who look see the new file", []Test{
				"store/sqlite/fault_test.go:TestStore_file_replaced", "store/sqlite/fault_test.go:TestStore_file_removed_without_its_log",
			}, ""},
			{[]string{"F20", "F21", "F22"}, "released twice, by another, or late", "not held, and nothing is changed", rules(`rules "stale", "ended"`), ""},
			{[]string{"F23"}, "a waiter dies in line", "the next one is served when the place is over", rules(`rule "expired entry"`), ""},
			{[]string{"F30"}, "all wake-ups lost", "those who wait ask again within the poll", []Test{"tests/promise/link_test.go:TestDeaf/sqlite"}, ""},
			{[]string{"F36", "F27"}, "network file system, symbolic link, hard link, a file that is mounted alone (Linux), file that others may open, read-only file, newer layout", "refused when it is opened, with the reason", []Test{
				"store/sqlite/fault_test.go:TestOpen_refuses", "store/sqlite/mount_linux_test.go:TestOpen_mounted_file",
			}, ""},
		},
		Absent: []Absence{
			{[]string{"F04", "F05", "F06", "F07", "F19", "F29", "F34", "F38"}, "there is no link"},
			{[]string{"F10", "F11", "F12", "F13", "F14", "F28", "F31", "F37"}, "there is one file, and it is not replicated"},
			{[]string{"F25"}, "nothing is evicted from a file, and what is full is the disk"},
		},
		Tail: "Not promised: anything about a file that two kernels write; claims in a file that nobody has open when a container with a boot_id of its own opens it. On systems other than Linux and macOS claims end by the time of day.\n[Why](adr/0010-sqlite.md).",
	}
}
