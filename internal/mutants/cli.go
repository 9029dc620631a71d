package main

// cli are mutants of the command line: who runs, who hears of what, and what is shown.
func cli() []mutant {
	const pkg = "cmd/distlock"
	return []mutant{
		{
			Name: "run-once-mistakes-keys", Why: "a job is skipped because another one has run, and the exit code is 0",
			File: "cmd/distlock/once.go", Old: "strings.NewReplacer(\"%\", \"%25\", \"@\", \"%40\").Replace(name)", New: "strings.NewReplacer().Replace(name)",
			Pkg: "cmd/distlock", Test: "TestRecordName",
		},
		{
			Name: "config-of-the-current-folder", Why: "a relative XDG_CONFIG_HOME lets the current folder choose the store",
			File: "cmd/distlock/config.go", Old: "		if !filepath.IsAbs(dir) { //", New: "		if dir == \"\" { //",
			Pkg: "cmd/distlock", Test: "TestConfig_ofOthers",
		},
		{
			Name: "config-of-everybody", Why: "other users choose the store by writing to the configuration",
			File: "cmd/distlock/config.go", Old: "info.Mode().Perm()&0o002 != 0", New: "info.Mode().Perm()&0o1000 != 0",
			Pkg: "cmd/distlock", Test: "TestConfig_ofOthers",
		},
		{
			Name: "run-keeps-what-it-did-not-use", Why: "a command that was not started keeps the name taken for --min-hold",
			File: "cmd/distlock/run.go", Old: "				lease = again\n", New: "				_ = again\n",
			Pkg: "cmd/distlock", Test: "TestJob_discard",
		},
		{
			Name: "protocol-not-checked-while-connecting", Why: "a wrong scheme is an error after the client gave up, and the error does not name the cause",
			File: "internal/protocol/protocol.go", Old: "			cancel(err)\n", New: "			_ = err\n",
			Pkg: "internal/protocol", Test: "TestConnect_hangs",
		},
		{
			Name: "web-server-taken-for-a-lock-server", Why: "the answer of a proxy for a host that cannot be reached is called a lock server",
			File: "internal/protocol/protocol.go", Old: " || !bytes.Contains(answer, []byte(\"\\r\\nDistlock-Store: \")) {\n", New: " {\n",
			Pkg: "internal/protocol", Test: "TestAt_lockServer",
		},
		{
			Name: "greeting-taken-for-an-answer", Why: "a MariaDB server is called PostgreSQL, by the length of its greeting",
			File: "internal/protocol/protocol.go", Old: "	if len(b) > 4 && b[3] == 0 && b[4] == 10 {\n", New: "	if len(b) > 8 {\n",
			Pkg: "internal/protocol", Test: "TestAt_greeting",
		},
		{
			Name: "mysql-waits-for-another-protocol", Why: "a wrong scheme is an error after five seconds, and the error does not name the cause",
			File: "store/mysql/url.go", Old: "	return c, cmp.Or(other, err)\n", New: "	_ = other\n	return c, err\n",
			Pkg: "open", Test: "TestOpen_otherProtocol/mysql_on_Redis",
		},
		{
			Name: "password-taken-for-a-scheme", Why: "a URL without a scheme shows its password",
			File: "open/open.go", Old: "	if !ok || strings.ContainsAny(scheme, \"@/\") {", New: "	if !ok {",
			Pkg: "open", Test: "TestOpen_refuses",
		},
		{
			Name: "stepped-down-for-good", Why: "a candidate that stepped down once later leads for ever, without a command",
			File: pkg + "/supervise.go", Old: "			resign = nil\n", New: "			resign, j.ending = nil, true\n",
			Pkg: pkg, Test: "TestElect_afterSteppingDown",
		},
		{
			Name: "signal-of-the-wait-is-kept", Why: "a signal that came while no command ran hits the next command",
			File: pkg + "/elect.go", Old: "	if e.drain() {\n", New: "	if false {\n",
			Pkg: pkg, Test: "TestElect_signalWhileWaiting",
		},
		{
			Name: "signal-with-the-election-is-lost", Why: "a command is started, and no signal ends it",
			File: pkg + "/elect.go", Old: "ending || ends(", New: "ending && ends(",
			Pkg: pkg, Test: "TestElect_signalWithTheElection",
		},
		{
			Name: "second-reason-postpones-kill", Why: "a command whose lock is lost continues for a second grace period",
			File: pkg + "/supervise.go", Old: "at.Before(k.at)", New: "at.After(k.at)",
			Pkg: pkg, Test: "TestKillTimer",
		},
		{
			Name: "closed-pipe-leaves-a-lock", Why: "a lock stays taken, and no process has its handle",
			File: pkg + "/acquire.go", Old: "		notify(make(chan os.Signal, 1), syscall.SIGPIPE)", New: "		_ = []any{os.Args, syscall.SIGPIPE}",
			Pkg: pkg, Test: "TestAcquire_closedPipe",
		},
		{
			Name: "secret-ends-at-a-quote", Why: "the rest of a password is shown",
			File: "open/redact.go", Old: "(?::|%3A)[^\\s]*(@|%40)", New: "(?::|%3A)[^\\s&\"']*(@|%40)",
			Pkg: "open", Test: "TestRedact_lettersOfSecrets",
		},
		{
			Name: "secret-key-ends-at-a-quote", Why: "the rest of a password in the query is shown",
			File: "open/redact.go", Old: "(secretKey + `[^\\s&]+`)", New: "(secretKey + `[^\\s&\"']+`)",
			Pkg: "open", Test: "TestRedact_lettersOfSecrets",
		},
		{
			Name: "space-hides-a-secret", Why: "a file with a password that everybody may read is accepted",
			File: "open/redact.go", Old: "Redact(text) != text || len(passwords(text)) > 0", New: "Redact(text) != text",
			Pkg: "open", Test: "TestRedact_lettersOfSecrets",
		},
		{
			Name: "question-shows-a-password", Why: "the confirmation prompt for a store of other people shows the password in its URL",
			File: pkg + "/host.go", Old: "a.redact(store)", New: "store",
			Pkg: pkg, Test: "TestBench_terminal_confirms",
		},
		{
			Name: "host-of-a-variable-is-not-confirmed", Why: "load is put on a store of other people without confirmation",
			File: pkg + "/host.go", Old: "		hosts = os.Getenv(\"PGHOST\")\n", New: "		_ = os.Getenv(\"PGHOST\")\n",
			Pkg: pkg, Test: "TestOnThisHost_variables",
		},
	}
}
