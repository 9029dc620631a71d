package main

// operate are mutants of the operation of the lock server: limits, probes, certificates, issuers.
func operate() []mutant {
	return []mutant{
		{
			Name: "server-renewals-queue", Why: "renewals wait behind calls that hang in the store, and leases are lost",
			File: "server/gate.go", Old: "	began := time.Now()\n	out := driver.RenewAll(", New: "	leave, err := g.enter(ctx, g.calls)\n	if err != nil {\n		return make([]driver.Renewed, len(rs))\n	}\n	defer leave()\n	began := time.Now()\n	out := driver.RenewAll(",
			Pkg: "server", Test: "TestServer_Limits_inFlight",
		},
		{
			Name: "server-one-takes-all", Why: "calls of one identity keep those of all others out of the store",
			File: "server/slots.go", Old: "share: max(1, most/2)", New: "share: most",
			Pkg: "server", Test: "TestServer_Limits_inFlight",
		},
		{
			Name: "server-renewals-share-the-rate", Why: "a client that makes too many calls loses its leases",
			File: "server/operations.go", Old: "isKeep(r.URL.Path))", New: "false)",
			Pkg: "server", Test: "TestServer_Limits_rate",
		},
		{
			Name: "server-strangers-limit-probes", Why: "a load balancer gives up a server that somebody floods",
			File: "server/routes.go", Old: "	if class == Public {\n		return id, nil\n	}\n", New: "",
			Pkg: "server", Test: "TestServer_Limits_rate",
		},
		{
			Name: "server-unknown-is-not-counted", Why: "an identity holds more claims than it may, after calls without an answer",
			File: "server/gate.go", Old: "	case outcome != \"unknown\" && fresh:", New: "	case fresh:",
			Pkg: "server", Test: "TestServer_Limits_unknown",
		},
		{
			Name: "server-released-claims-count", Why: "an identity that releases its claims is refused new ones",
			File: "server/gate.go", Old: "	if outcome == \"ok\" || outcome == \"not_held\" || outcome == \"broken\" {\n		g.quota.ends(ctx, id)\n	}\n", New: "",
			Pkg: "server", Test: "TestServer_Limits_claims",
		},
		{
			Name: "server-silent-clients-stay", Why: "clients that send nothing keep others out",
			File: "server/conns.go", Old: "			if oldest := c.idle.Front(); oldest != nil {", New: "			if oldest := c.idle.Front(); oldest != nil && false {",
			Pkg: "server", Test: "TestServer_Limits_connections",
		},
		{
			Name: "server-refused-calls-stay", Why: "strangers whose calls are refused keep their connections for ever, and all others out",
			File: "server/server.go", Old: "	_ = control.SetReadDeadline(time.Now().Add(bodyLimit))\n", New: "	if r.Header.Get(message.StoreHeader) == \"\" {\n		_ = control.SetReadDeadline(time.Now().Add(bodyLimit))\n	}\n",
			Pkg: "server", Test: "TestServer_slow",
		},
		{
			Name: "server-watch-without-deadline", Why: "Watch by HTTP/1.1 keeps a connection for ever without a message",
			File: "server/server.go", Old: "api.StoreWatchProcedure && r.ProtoMajor > 1 {", New: "api.StoreWatchProcedure {",
			Pkg: "server", Test: "TestServer_slow",
		},
		{
			Name: "serve-rotation-ends-it", Why: "a program that rotates the audit kills a server that still serves renewals",
			File: "cmd/distlock/serve.go", Old: "	s.reopens(running)", New: "	_ = running\n	s.reopens(ctx)",
			Pkg: "cmd/distlock", Test: "TestServe_rotated_late",
		},
		{
			Name: "server-drains-and-is-ready", Why: "a load balancer sends calls to a server that is about to end",
			File: "server/health.go", Old: "	if s.drained.Err() != nil {\n		return errDraining\n	}\n", New: "",
			Pkg: "server", Test: "TestServer_readyz",
		},
		{
			Name: "server-probes-call-the-store", Why: "each probe is a write to the store, and everybody may send probes",
			File: "server/health.go", Old: "time.Since(h.checked) < checkAge {", New: "time.Since(h.checked) < 0 {",
			Pkg: "server", Test: "TestServer_readyz",
		},
		{
			Name: "server-probes-show-errors", Why: "everybody reads errors of the store, which may have addresses and users",
			File: "server/health.go", Old: "		h.err = errStoreFails\n", New: "		h.err = err\n",
			Pkg: "server", Test: "TestServer_readyz",
		},
		{
			Name: "server-broken-certificate", Why: "a certificate that is half written stops all new connections",
			File: "server/tls.go", Old: "	case err == nil:\n		c.config, c.broken", New: "	case err == nil || c.log != nil:\n		c.config, c.broken",
			Pkg: "server", Test: "TestCertificate_reload",
		},
		{
			Name: "server-any-certificate", Why: "a certificate that no authority has signed is an identity",
			File: "server/tls.go", Old: "tls.VerifyClientCertIfGiven", New: "tls.RequestClientCert",
			Pkg: "server", Test: "TestClientCertificate",
		},
		{
			Name: "oidc-any-audience", Why: "a token for another service acquires locks",
			File: "server/oidc/oidc.go", Old: "ClientID: audience,", New: "SkipClientIDCheck: true,",
			Pkg: "server/oidc", Test: "TestIssuer_Verify",
		},
		{
			Name: "oidc-expired", Why: "a token that has expired acquires locks",
			File: "server/oidc/oidc.go", Old: "	case !now.Before(t.Expiry.Add(leeway)):", New: "	case false:",
			Pkg: "server/oidc", Test: "TestIssuer_Verify",
		},
		{
			Name: "oidc-fetches-for-everybody", Why: "strangers make the server flood its issuer",
			File: "server/oidc/oidc.go", Old: "	p.next = time.Now().Add(pause)\n", New: "	p.next = time.Now().Add(pause - fetchPause)\n",
			Pkg: "server/oidc", Test: "TestIssuer_rotation",
		},
		{
			Name: "serve-certificates-without-permissions", Why: "the start does not say that clients with a certificate may do nothing",
			File: "cmd/distlock/serve_ops.go", Old: "	case s.tokens == \"\" && (s.clientCA != \"\" || s.issuer != \"\"):\n", New: "	case false:\n",
			Pkg: "cmd/distlock", Test: "TestServe_check",
		},
		{
			Name: "serve-second-signal", Why: "a server that hangs in its drain cannot be ended",
			File: "cmd/distlock/serve.go", Old: "	stop() // a second signal ends the process at once\n", New: "",
			Pkg: "cmd/distlock", Test: "TestServe_signals",
		},
	}
}
