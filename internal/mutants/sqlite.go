package main

// sqlite are mutants of how store/sqlite handles its file and host. The mutants of the rules of
// drivertest are in store.
func sqlite() []mutant {
	const dir, pkg = "store/sqlite/", "store/sqlite"
	return []mutant{
		{
			Name: "sqlite-boot-frees-a-file-in-use", Why: "a container with its own boot_id frees the claims of live holders",
			File: dir + "base.go", Old: "		if err = b.reboot(s); err == nil {\n			err = b.setup(s)\n		}\n",
			New: "		_ = b.exec(\"update key set ends = 0, state = null where key <> x''; delete from entry\")\n		_ = b.stamp(s)\n		err = b.setup(s)\n",
			Pkg: pkg, Test: "TestOpen_boot_of_a_container",
		},
		{
			Name: "sqlite-remote-cuts-the-TTL", Why: "after a reboot a claim of a remote holder ends while its holder trusts it",
			File: dir + "remote.go", Old: "	c.live(now, life)\n", New: "	c.live(now, life/2)\n",
			Pkg: pkg, Test: "TestStore_remote_reboot",
		},
		{
			Name: "sqlite-remote-is-forgotten", Why: "a program without the option frees the claims of remote holders after a reboot",
			File: dir + "remote.go", Old: "	b.remote = holders == \"remote\"\n", New: "	b.remote = s.opt.Remote\n",
			Pkg: pkg, Test: "TestStore_remote_reboot",
		},
		{
			Name: "sqlite-remote-revives", Why: "a claim that had ended is renewed after a reboot",
			File: dir + "remote.go", Old: "if c.ends <= last {", New: "if c.ends < 0 {",
			Pkg: pkg, Test: "TestStore_remote_reboot",
		},
		{
			Name: "sqlite-remote-normal", Why: "a power failure forgets the claim of a holder that lives",
			File: dir + "base.go", Old: "	if b.remote {\n		if err := b.exec(\"pragma synchronous = full\")", New: "	if false {\n		if err := b.exec(\"pragma synchronous = full\")",
			Pkg: pkg, Test: "TestStore_remote_reboot",
		},
		{
			Name: "sqlite-reboot-keeps-entries", Why: "after a reboot a waiter of the earlier boot blocks a key, or is granted it",
			File: dir + "boot.go", Old: "x''; delete from entry\")", New: "x''\")",
			Pkg: pkg, Test: "TestStore_reboot_entries",
		},
		{
			Name: "sqlite-group-old-time", Why: "a claim ends before its holder stops trusting it, because it counts from before the call",
			File: dir + "tx.go", Old: "		t.now = s.now() // not before", New: "		// not before",
			Pkg: pkg, Test: "TestStore_group",
		},
		{
			Name: "sqlite-group-commit", Why: "a call is answered by a change that was never committed",
			File: dir + "tx.go", Old: "e.err, e.wakeups = err, nil", New: "e.wakeups = nil",
			Pkg: pkg, Test: "TestStore_group_commit",
		},
		{
			Name: "sqlite-ended-claims-count", Why: "the weight of a claim that has ended is never free again",
			File: dir + "key.go", Old: "	return k.t.save(k)\n", New: "	return nil\n",
			Pkg: pkg, Test: "TestStore_expired_entries",
		},
		{
			Name: "sqlite-weight-of-others", Why: "more shared holders than the limit allows hold a key",
			File: dir + "entry.go", Old: "r.used+n*c.weight", New: "r.used",
			Pkg: pkg, Test: "TestStore_virtual/many_slots",
		},
		{
			Name: "sqlite-sweep-leaves-entries", Why: "the file grows with each key that had a queue",
			File: dir + "base.go", Old: "begin delete from entry where key = old.key; end", New: "begin select 1; end",
			Pkg: pkg, Test: "TestStore_swept_entries",
		},
		{
			Name: "sqlite-queue-is-scanned", Why: "an attempt costs as much as the queue is long",
			File: dir + "base.go", Old: "on entry (key, waiting, ends)", New: "on entry (key, ends)",
			Pkg: pkg, Test: "TestStore_plans",
		},
		{
			Name: "sqlite-busy-by-nobody", Why: "the error does not say which process keeps the file locked",
			File: dir + "tx.go", Old: "if who := user(s.path); who != \"\" {", New: "if who := user(s.path); who == \"-\" {",
			Pkg: pkg, Test: "TestStore_busy_by",
		},
		{
			Name: "sqlite-second-name", Why: "two processes that use two names of one file both hold a lock",
			File: dir + "file.go", Old: "	case links(file) > 1:\n", New: "	case links(file) > 2:\n",
			Pkg: pkg, Test: "TestOpen_refuses/a_second_name",
		},
		{
			Name: "sqlite-file-mounted-alone", Why: "a container that mounts only the file has its own log, and both hold a lock",
			File: dir + "file.go", Old: "	case mountPoint(path):\n", New: "	case false:\n",
			Pkg: pkg, Test: "TestOpen_mounted_file",
		},
		{
			Name: "sqlite-sockets-of-root", Why: "root waits once, and the owner of the file polls from then on",
			File: dir + "wake_unix.go", Old: "		giveTo(folder, strings.TrimSuffix(folder, wakeSuffix))\n", New: "		_ = strings.TrimSuffix(folder, wakeSuffix)\n",
			Pkg: pkg, Test: "TestStore_Watch_root",
		},
		{
			Name: "sqlite-draft-is-a-second-name", Why: "a process that dies while it creates the file makes the file unusable for all",
			File: dir + "file.go", Old: "			_ = os.Remove(draft) //", New: "			_ = draft //",
			Pkg: pkg, Test: "TestOpen_draft_left",
		},
		{
			Name: "sqlite-boot-hidden", Why: "a process that does not see the boot_id frees the claims of processes that do",
			File: dir + "host_linux.go", Old: "	if err != nil {\n		return host{}, err\n	}\n", New: "	_ = err\n",
			Pkg: pkg, Test: "TestOpen_boot_hidden",
		},
		{
			Name: "sqlite-renewal-in-a-removed-file", Why: "a claim is renewed in a file that no other process sees",
			File: dir + "tx.go", Old: "		case !busy(err) && !s.same(): ", New: "		case false: ",
			Pkg: pkg, Test: "TestStore_file_replaced/renew",
		},
		{
			Name: "sqlite-release-in-a-removed-file", Why: "a holder is not notified that another has the lock",
			File: dir + "solo.go", Old: "	case busy(err), !s.same(): ", New: "	case busy(err): ",
			Pkg: pkg, Test: "TestStore_file_replaced/release_by_one_statement",
		},
		{
			Name: "sqlite-remembers-broken-claims", Why: "a key stays in the file for as long as a broken claim would have lived",
			File: dir + "verbs.go", Old: "min(c.ends, after(t.now, reasonLimit))", New: "c.ends",
			Pkg: pkg, Test: "TestStore_Break_forgets",
		},
		{
			Name: "sqlite-pushed-to-another-key", Why: "a claim is granted to a waiter that nobody notifies, and blocks the key",
			File: dir + "notify.go", Old: "return w.id == id })", New: "return w.id.Owner == id.Owner })",
			Pkg: pkg, Test: "TestStore_pushed_others",
		},
		{
			Name: "sqlite-pushed-with-an-old-fence", Why: "a pushed grant has a fence of the holder before",
			File: dir + "key.go", Old: "		fence := max(k.last+driver.Span, wall())\n", New: "		fence := max(k.last, 1)\n",
			Pkg: pkg, Test: "TestStore_pushed",
		},
		{
			Name: "sqlite-pushed-before-the-commit", Why: "a waiter trusts a grant that was never committed",
			File: dir + "tx.go", Old: "	if e.err = s.end(t, err); e.err != nil {\n		e.wakeups = nil\n", New: "	if e.err = s.end(t, err); e.err != nil {\n",
			Pkg: pkg, Test: "TestStore_pushed_fails",
		},
	}
}
