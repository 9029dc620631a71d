package main

// proof are mutants of what judges others, and of how stores hear what servers say and write what
// users name.
func proof() []mutant {
	const history = "internal/lab/history"
	return []mutant{
		{
			Name: "unending-search-passes", M: "M38a", Why: "a history that was not fully checked counts as good",
			File: history + "/verify.go", Old: "		if res == porcupine.Ok {\n", New: "		if res != porcupine.Illegal {\n",
			Pkg: history, Test: "TestVerify_timeout_is_a_failure",
		},
		{
			Name: "empty-history-passes", M: "M38b", Why: "a run in which nothing happened counts as good",
			File: history + "/check.go", Old: "		if got < want {\n", New: "		if got < want && got > 0 {\n",
			Pkg: history, Test: "TestVerify_empty_proves_nothing",
		},
		{
			Name: "lonely-history-passes", M: "M38c", Why: "a run in which nobody had to wait counts as good",
			File: history + "/check.go", Old: "	short(v.Waits, max(1, m.ContendedWaits),", New: "	short(v.Waits, m.ContendedWaits,",
			Pkg: history, Test: "TestVerify_empty_proves_nothing",
		},
		{
			Name: "history-without-faults-passes", M: "M38d", Why: "a run whose faults met no holder counts as good",
			File: history + "/check.go", Old: "	short(v.FaultsOverHold, m.FaultsOverHold,", New: "	short(v.FaultsOverHold, 0,",
			Pkg: history, Test: "TestVerify_empty_proves_nothing",
		},
		{
			Name: "gap-between-pauses-counts-as-running", Why: "a holder that was stopped twice in a row is blamed for a notification that it could not receive",
			File: history + "/index.go", Old: "f.Call.At <= p[n-1].to+gap {", New: "f.Call.At <= p[n-1].to {",
			Pkg: history, Test: "TestCheck_rules",
		},
		{
			Name: "tolerance-runs-out-in-a-pause", Why: "a holder that is stopped again before it could be notified is blamed for it",
			File: history + "/check.go", Old: "		if p.from-t >= d {\n", New: "		if p.from > t {\n",
			Pkg: history, Test: "TestCheck_rules",
		},
		{
			Name: "raw-name-in-the-braces", M: "M32a", Why: "a name with a brace puts its keys on several nodes, or on the nodes of another name",
			File: "store/redis/key.go", Old: "			b = append(b, \"%7D\"...)\n", New: "			b = append(b, '}')\n",
			Pkg: "store/redis", Test: "TestName",
		},
		{
			Name: "escape-not-escaped", M: "M32a", Why: "two names become one",
			File: "store/redis/key.go", Old: "			b = append(b, \"%25\"...)\n", New: "			b = append(b, '%')\n",
			Pkg: "store/redis", Test: "TestName",
		},
		{
			Name: "refusal-of-the-server-is-unknown", Why: "a server that may not write is taken for one whose answer was lost",
			File: "store/redis/errors.go", Old: "	\"NOREPLICAS\":  true,", New: "	\"NOREPLICAS\":  false,",
			Pkg: "store/redis", Test: "TestStore_refusals/no_replicas",
		},
		{
			Name: "password-in-a-quoted-message", Why: "a message that quotes a URL shows its password",
			File: "open/redact.go", Old: "	message := Redactor(text)(err.Error())\n", New: "	message := Redact(err.Error())\n",
			Pkg: "open", Test: "TestOpen_hidesPasswords",
		},
	}
}
