package main

// fence are mutants of the guards, which compare fencing tokens: a late write gets through, or a
// timely write is refused.
func fence() []mutant {
	const row, table, lua, pkg = "internal/guard/row.go", "internal/guard/table.go", "fence/redisfence/guard.lua", "fence"
	const check = `r.Column+" <= cast({} as "+r.Style.integer()+")"`
	const upsert = "where g.fence <= excluded.fence`, 1)\n"
	const compare = "if fence < highest then return {'stale', stored} end\n"
	return []mutant{
		{
			Name: "fence-of-row-as-text", M: "M35a", Why: "9 is more than 10",
			File: row, Old: check, New: `"cast("+r.Column+" as text) <= cast({} as text)"`,
			Pkg: pkg, Test: "TestRow/sqlite/integers",
		},
		{
			Name: "fence-of-row-without-cast", Why: "a column that was declared as text makes 9 more than 10",
			File: row, Old: check, New: `r.Column+" <= {}"`,
			Pkg: pkg, Test: "TestRow_text/sqlite",
		},
		{
			Name: "fence-of-row-above-only", M: "M37a", Why: "a holder can write only once",
			File: row, Old: check, New: `r.Column+" < cast({} as bigint)"`,
			Pkg: pkg, Test: "TestRow/sqlite/a_higher_fence_and_the_same_one_again",
		},
		{
			Name: "fence-of-row-unchecked", M: "M37b", Why: "a late write gets through",
			File: row, Old: check, New: `"0 < cast({} as bigint)"`,
			Pkg: pkg, Test: "TestPausedHolder/sqlite",
		},
		{
			Name: "fence-of-row-not-kept", Why: "the row does not remember the last fence",
			File: row, Old: `mark(r.Column+" = {} where`, New: `mark(r.Column+" = 0 * {} where`,
			Pkg: pkg, Test: "TestPausedHolder/sqlite",
		},
		{
			Name: "fence-in-table-as-text", M: "M35a", Why: "9 is more than 10",
			File: table, Old: upsert, New: "where cast(g.fence as text) <= cast(excluded.fence as text)`, 1)\n",
			Pkg: pkg, Test: "TestTable/sqlite/integers",
		},
		{
			Name: "fence-in-table-above-only", M: "M37a", Why: "a holder can write only once",
			File: table, Old: upsert, New: "where g.fence < excluded.fence`, 1)\n",
			Pkg: pkg, Test: "TestTable/sqlite/a_higher_fence_and_the_same_one_again",
		},
		{
			Name: "fence-in-table-unchecked", M: "M37b", Why: "a late write gets through",
			File: table, Old: upsert, New: "`, 1)\n",
			Pkg: pkg, Test: "TestMiddleware/sqlite",
		},
		{
			Name: "once-recorded-twice", Why: "a second result replaces the first",
			File: table, Old: " and g.result is null`, 1)", New: "`, 1)",
			Pkg: pkg, Test: "TestOnce/sqlite",
		},
		{
			Name: "once-looks-before-it-waits", Why: "two callers that came at the same time both run the function",
			File: "fence/once.go", Old: "		case ok:\n", New: "		case ok && stale != nil:\n",
			Pkg: pkg, Test: "TestOnce/sqlite",
		},
		{
			Name: "fence-read-as-float", M: "M35b", Why: "1e3 and 2^53+1 are taken for fences",
			File: "internal/proof/proof.go",
			Old:  "	f, err := strconv.ParseUint(s, 10, 64)\n	if err != nil || f == 0 || f >= MaxFence || strconv.FormatUint(f, 10) != s {\n",
			New:  "	n, err := strconv.ParseFloat(s, 64)\n	f := uint64(n)\n	if err != nil || f == 0 || f > MaxFence {\n",
			Pkg:  pkg, Test: "TestParseFence",
		},
		{
			Name: "proof-of-shared-lease", Why: "fences of shared leases are in no order",
			File: "fence/proof.go", Old: "	if mode != exclusive {\n", New: "	if mode == \"\" {\n",
			Pkg: pkg, Test: "TestParse",
		},
		{
			Name: "proof-of-another-lock", Why: "a client closes a resource that its lock does not protect",
			File: "fence/http.go", Old: `p.key != want || want == ""`, New: `want == ""`,
			Pkg: pkg, Test: "TestMiddleware/sqlite",
		},
		{
			Name: "proof-without-its-kind", Why: "the fence of an election blocks the holder of the lock of the same name",
			File: "handle.go", Old: "string(l.r.mode), l.r.Key)", New: "string(l.r.mode), l.r.name)",
			Test: "TestProof_kinds",
		},
		{
			Name: "conflict-taken-for-saved", Why: "an update is lost",
			File: "fence/update.go", Old: "		case saved:\n", New: "		case saved || n < 3:\n",
			Pkg: pkg, Test: "TestUpdate_seat/sqlite",
		},
		{
			Name: "fence-in-redis-as-text", M: "M35a", Why: "9 is more than 10",
			File: lua, Old: compare, New: "if ARGV[1] < (stored or '0') then return {'stale', stored} end\n",
			Pkg: pkg + "/redisfence", Test: "TestGuard_virtual/goredis/integers",
		},
		{
			Name: "fence-in-redis-as-short-text", M: "M35b", Why: "numbers above 10^14 are rounded by tostring",
			File: lua, Old: compare, New: "local function short(n) return tonumber(string.format('%.14g', n)) end\nif short(fence) < short(highest) then return {'stale', stored} end\n",
			Pkg: pkg + "/redisfence", Test: "TestGuard_virtual/goredis/integers",
		},
		{
			Name: "fence-in-redis-above-only", M: "M37a", Why: "a holder can write only once",
			File: lua, Old: compare, New: "if fence <= highest then return {'stale', stored} end\n",
			Pkg: pkg + "/redisfence", Test: "TestGuard_virtual/goredis/a_higher_fence_and_the_same_one_again",
		},
		{
			Name: "fence-in-redis-unchecked", M: "M37b", Why: "a late write gets through",
			File: lua, Old: compare, New: "",
			Pkg: pkg + "/redisfence", Test: "TestGuard_virtual/goredis/integers",
		},
		{
			Name: "fence-in-redis-not-kept", Why: "the register does not remember the last fence",
			File: lua, Old: "elseif fence > highest then\n", New: "elseif fence < highest then\n",
			Pkg: pkg + "/redisfence", Test: "TestGuard_virtual/goredis/integers",
		},
	}
}
