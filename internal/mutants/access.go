package main

// access are mutants of identities and permissions: each lets a client do what it may not.
func access() []mutant {
	const permit, guard, caller, file = "server/permit.go", "server/guard.go", "server/caller.go", "server/tokens/"
	return []mutant{
		{
			Name: "access-raw-keys", Why: "a prefix of keys is taken for a prefix of names: a key that is no name passes",
			File: permit, Old: "	case ok && names.Flaw(name) == \"\":\n", New: "	case ok:\n",
			Pkg: "server", Test: "TestGuard_Acquire",
		},
		{
			Name: "access-prefix-without-end", Why: "team-a may use the names of team-ab",
			File: "server/access/access.go", Old: "		return strings.HasPrefix(name, p.Names)\n", New: "		return strings.HasPrefix(name, strings.TrimSuffix(p.Names, \"/\"))\n",
			Pkg: "server/access", Test: "TestIdentity",
		},
		{
			Name: "access-internal-keys", Why: "every client with a name may write keys of the library",
			File: permit, Old: "	return access.Permission{Names: \"*\", Verbs: v}, id.MayAll(v)\n", New: "	return access.Permission{Names: \"*\", Verbs: v}, id.MayAny(v)\n",
			Pkg: "server", Test: "TestGuard_Acquire",
		},
		{
			Name: "access-forged-notice", Why: "a client makes a deadlock of others appear, and their calls fail",
			File: permit, Old: "	for _, key := range []string{holds, wants} {\n", New: "	for _, key := range []string{wants, wants + holds[:0]} {\n",
			Pkg: "server", Test: "TestGuard_Acquire",
		},
		{
			Name: "access-forged-renewal", Why: "a notice is forged by its renewal",
			File: permit, Old: "	if to.is == notice && r.Value != nil {\n", New: "	if false {\n",
			Pkg: "server", Test: "TestGuard_Renew_Release",
		},
		{
			Name: "access-notice-shown", Why: "a client reads the names of others in notices",
			File: permit, Old: "sees(id, holds) && sees(id, wants)", New: "(sees(id, holds) || sees(id, wants))",
			Pkg: "server", Test: "TestGuard_shows",
		},
		{
			Name: "access-values-shown", Why: "results of Once are shown to those who may only observe",
			File: permit, Old: "	c.Value = nil\n", New: "",
			Pkg: "server", Test: "TestGuard_shows",
		},
		{
			Name: "access-unfiltered-list", Why: "a list shows the names of all teams",
			File: guard, Old: "c, ok = visible(id, c); !ok || ", New: "c, ok = visible(id, c); !ok && false || ",
			Pkg: "server", Test: "TestGuard_shows",
		},
		{
			Name: "access-renewals-unchecked", Why: "a client without rights keeps a lock for ever",
			File: guard, Old: "out[i].Err = g.renewal(ctx, &r); out[i].Err == nil", New: "_ = g.renewal(ctx, &r); out[i].Err == nil",
			Pkg: "server", Test: "TestGuard_Renew_Release",
		},
		{
			Name: "access-long-ttl", Why: "a client keeps a lock for longer than it may",
			File: permit, Old: "	if most == 0 || d <= most {\n", New: "	if d >= 0 {\n",
			Pkg: "server", Test: "TestGuard_Acquire",
		},
		{
			Name: "access-break-unrecorded", Why: "locks are broken and nobody knows by whom",
			File: guard, Old: "	if err := g.begin(ctx, about(key), reason); err != nil {\n		return nil, err\n	}\n", New: "	_ = g.begin(ctx, about(key), reason)\n",
			Pkg: "server", Test: "TestGuard_Break",
		},
		{
			Name: "access-loopback-without-token", Why: "a proxy on the host makes everybody local, although tokens are required",
			File: caller, Old: "	case len(s.opt.Authenticate) > 0:\n", New: "	case len(s.opt.Authenticate) > 0 && l != loopback:\n",
			Pkg: "server", Test: "TestServer_Local_identity",
		},
		{
			Name: "access-cross-origin", Why: "a page of another origin breaks locks with the credentials of a browser",
			File: "server/server.go", Old: "	if err := s.cross.Check(r); err != nil {\n", New: "	if err := s.cross.Check(r); err != nil && l == loopback {\n",
			Pkg: "server", Test: "TestServer_cross_origin",
		},
		{
			Name: "access-long-queue", Why: "a client keeps a lock for longer than it may, by a queue entry that is granted",
			File: permit, Old: "r.QueueTTL, atLeast(most, minQueue))", New: "0*r.QueueTTL, atLeast(most, minQueue))",
			Pkg: "server", Test: "TestGuard_Acquire",
		},
		{
			Name: "access-trusts-every-proxy", Why: "a client writes any address into the audit",
			File: "server/routes.go", Old: "	if !s.trusts(host) {\n		return host\n	}\n", New: "",
			Pkg: "server", Test: "TestServer_remote",
		},
		{
			Name: "access-route-without-class", Why: "a route that nobody has thought about is open",
			File: "server/routes.go", Old: "	if !known && pattern != \"\" {\n", New: "	if !known && pattern == \"-\" {\n",
			Pkg: "server", Test: "TestRoutes_class",
		},
		{
			Name: "access-observer-routes", Why: "every client reads the metrics of all",
			File: "server/routes.go", Old: "	if class == Observer && !id.MayAll(access.Observe) {\n", New: "	if false {\n",
			Pkg: "server", Test: "TestRoutes_credentials",
		},
		{
			Name: "access-stream-outlives-token", Why: "a client whose token was revoked is still notified",
			File: "server/watch.go", Old: "	st.running.Go(st.recheck)\n", New: "",
			Pkg: "server", Test: "TestGuard_Watch",
		},
		{
			Name: "tokens-unknown-id", Why: "a token with an unknown id and a hash of zeros is somebody's",
			File: file + "tokens.go", Old: "same != 1 || !known {", New: "same != 1 && known {",
			Pkg: file[:len(file)-1], Test: "TestFile",
		},
		{
			Name: "audit-flood", Why: "strangers fill the disk with refusals that all differ",
			File: "server/audit.go", Old: "		if len(a.folded) >= foldMost {\n", New: "		if false {\n",
			Pkg: "server", Test: "TestGuard_audit_flood",
		},
		{
			Name: "tokens-read-once", Why: "a token that is revoked while the file cannot be read stays valid until the file changes again",
			File: file + "tokens.go", Old: "	case f.broken == \"\" && os.SameFile(", New: "	case f.broken != \"\" || os.SameFile(",
			Pkg: "server/tokens", Test: "TestFile_no_descriptors",
		},
		{
			Name: "tokens-expired", Why: "an expired token is accepted",
			File: file + "tokens.go", Old: "!e.Expires.IsZero() && !time.Now().Before(e.Expires)", New: "false",
			Pkg: file[:len(file)-1], Test: "TestFile",
		},
		{
			Name: "tokens-writable-by-others", Why: "others give themselves tokens",
			File: file + "file_unix.go", Old: "&0o022 != 0", New: "&0o002 != 0",
			Pkg: file[:len(file)-1], Test: "TestRead_writable",
		},
		{
			Name: "tokens-second-widens-first", Why: "a further token changes what the first one may do",
			File: file + "change.go", Old: "	case len(has) > 0 && len(allow) > 0 && !slices.Equal(has, allow):\n", New: "	case false:\n",
			Pkg: file[:len(file)-1], Test: "TestAdd_Revoke",
		},
		{
			Name: "tokens-unknown-keys", Why: "a limit that is misspelled does not limit",
			File: file + "file.go", Old: "	case len(meta.Undecoded()) > 0:\n", New: "	case false:\n",
			Pkg: file[:len(file)-1], Test: "TestRead_refuses",
		},
		{
			Name: "remote-token-in-the-clear", Why: "others on the network read the token",
			File: "store/remote/token.go", Old: "		if !onThisHost(addr) {\n", New: "		if false {\n",
			Pkg: "store/remote", Test: "TestStore_token_stays",
		},
		{
			Name: "remote-old-token", Why: "a new token in the file is not used, and leases are lost",
			File: "store/remote/remote.go", Old: "!fresh && s.renewed(token)", New: "!fresh && token == \"\"",
			Pkg: "store/remote", Test: "TestStore_token",
		},
		{
			Name: "message-denied-is-unknown", Why: "a call that changed nothing is taken for one that may have",
			File: "internal/message/reason.go", Old: "	{api.Reason_KIND_DENIED, driver.ErrInvalid}, // it would fail again\n", New: "",
			Pkg: "internal/message", Test: "TestReason_refusals",
		},
		{
			Name: "serve-open-to-the-network", Why: "every host on the network may break every lock",
			File: "cmd/distlock/serve.go", Old: "	if !s.authenticates() && !s.noAuth {\n", New: "	if false {\n",
			Pkg: "cmd/distlock", Test: "TestServe_check",
		},
	}
}
