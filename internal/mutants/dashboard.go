package main

// dashboard are mutants of the pages of the lock server.
func dashboard() []mutant {
	const pkg = "dashboard"
	return []mutant{
		{
			Name: "dashboard-break-without-permission", Why: "everybody who sees a lock breaks it",
			File: "dashboard/dashboard.go", Old: "!d.options.ReadOnly && id.May(access.Break, name)", New: "!d.options.ReadOnly && sees(id, name)",
			Pkg: pkg, Test: "TestBreak_permission",
		},
		{
			Name: "dashboard-break-read-only", Why: "pages that are read-only break a lock",
			File: "dashboard/dashboard.go", Old: "d.options.Authorize != nil && !d.options.ReadOnly && ", New: "d.options.Authorize != nil && ",
			Pkg: pkg, Test: "TestDashboard_readOnly",
		},
		{
			Name: "dashboard-break-next-holder", Why: "a break hits the holder that came after the one that was shown",
			File: "dashboard/break.go", Old: "breaks(r.Context(), id, key, fence, reason)", New: "breaks(r.Context(), id, key, 0, reason)",
			Pkg: pkg, Test: "TestBreak_fence",
		},
		{
			Name: "dashboard-break-any-fence", Why: "a form without a fence ends all claims",
			File: "dashboard/break.go", Old: " || err != nil || fence == 0:", New: ":",
			Pkg: pkg, Test: "TestBreak_form",
		},
		{
			Name: "dashboard-break-forged-form", Why: "a page of an attacker breaks a lock in the name of its reader",
			File: "dashboard/break.go", Old: "	case !hmac.Equal([]byte(r.PostForm", New: "	case false && !hmac.Equal([]byte(r.PostForm",
			Pkg: pkg, Test: "TestBreak_form",
		},
		{
			Name: "dashboard-cross-origin", Why: "a page of another origin sends forms",
			File: "dashboard/dashboard.go", Old: "	if err := d.cross.Check(r); err != nil {", New: "	if err := d.cross.Check(r); err != nil && false {",
			Pkg: pkg, Test: "TestBreak_form",
		},
		{
			Name: "dashboard-token-of-all", Why: "the token of one identity serves another",
			File: "dashboard/break.go", Old: "\"break\\x00%q\\x00%q\", id.Name, key", New: "\"break\\x00%q\", key",
			Pkg: pkg, Test: "TestBreak_form",
		},
		{
			Name: "dashboard-list-unfiltered", Why: "the list has the names of other teams",
			File: "dashboard/locks.go", Old: "		if !sees(p.id, l.Name) {", New: "		if l == nil {",
			Pkg: pkg, Test: "TestDashboard_permissions",
		},
		{
			Name: "dashboard-events-unfiltered", Why: "the events have the names of other teams",
			File: "dashboard/overview.go", Old: "return ok && sees(id, name) && keep(e)", New: "return ok && name != \"\" && keep(e)",
			Pkg: pkg, Test: "TestDashboard_permissions",
		},
		{
			Name: "dashboard-audit-unfiltered", Why: "the audit has what other teams did",
			File: "dashboard/audit.go", Old: "(all || e.Name != \"\" && sees(p.id, e.Name))", New: "(all || e.Name != \"\")",
			Pkg: pkg, Test: "TestDashboard_permissions",
		},
		{
			Name: "dashboard-overview-unfiltered", Why: "the overview counts and names the locks of other teams",
			File: "dashboard/overview.go", Old: "		if !sees(p.id, l.Name) {", New: "		if l == nil {",
			Pkg: pkg, Test: "TestDashboard_permissions",
		},
		{
			Name: "dashboard-graph-unfiltered", Why: "the graph has what a caller of another team waits for",
			File: "dashboard/graph.go", Old: "sees(p.id, held) && sees(p.id, wants)", New: "(sees(p.id, held) || sees(p.id, wants))",
			Pkg: pkg, Test: "TestDashboard_permissions",
		},
		{
			Name: "dashboard-lock-unfiltered", Why: "the page of a lock shows the holder to those who may not observe it",
			File: "dashboard/lock.go", Old: "	if l == nil || !may {", New: "	if l == nil {",
			Pkg: pkg, Test: "TestDashboard_permissions",
		},
		{
			Name: "dashboard-invisible-name", Why: "a name that looks like another one is taken for it",
			File: "dashboard/words.go", Old: "!unicode.IsPrint(r) || blank(r)", New: "blank(r)",
			Pkg: pkg, Test: "TestPages_hostile",
		},
		{
			Name: "dashboard-name-as-path", Why: "a router changes the name in an address, and the page is that of another lock",
			File: "dashboard/words.go", Old: "	if plainName.MatchString(name) {", New: "	if name != \"\" {",
			Pkg: pkg, Test: "TestPages_hostile",
		},
		{
			Name: "dashboard-session-forged", Why: "everybody makes a session for every token",
			File: "dashboard/session.go", Old: "	if at < 0 || !hmac.Equal(", New: "	if at < 0 || false && !hmac.Equal(",
			Pkg: pkg, Test: "TestSessions",
		},
		{
			Name: "dashboard-session-for-ever", Why: "a session does not end",
			File: "dashboard/session.go", Old: "now.Unix() >= ends {", New: "now.Unix() >= 2*ends {",
			Pkg: pkg, Test: "TestSessions",
		},
		{
			Name: "dashboard-session-script", Why: "a script reads the session",
			File: "dashboard/session.go", Old: "HttpOnly: true, ", New: "",
			Pkg: pkg, Test: "TestSessions",
		},
		{
			Name: "dashboard-scan-for-each", Why: "each open page scans the store",
			File: "dashboard/snapshot.go", Old: "time.Since(at.last.At) < scanEvery {", New: "time.Since(at.last.At) < 0 {",
			Pkg: pkg, Test: "TestScanner_shared",
		},
		{
			Name: "dashboard-stream-after-session", Why: "an open page goes on after its token was revoked",
			File: "dashboard/live.go", Old: "		id, err := d.identify(r)\n		if err != nil {\n			return\n		}", New: "		id, err := d.identify(r)\n		if err != nil {\n			id, err = &access.Identity{}, nil\n		}",
			Pkg: pkg, Test: "TestStream",
		},
	}
}
