package main

// server are mutants of the lock server and of its client.
func server() []mutant {
	const client, pkg = "store/remote/", "store/remote"
	return []mutant{
		{
			Name: "server-other-store-served", Why: "a client that reaches two stores by one address is granted a lock that is held",
			File: "server/server.go", Old: "want != \"\" && want != id {", New: "want != \"\" && want != id && false {",
			Pkg: "server", Test: "TestServer_identity",
		},
		{
			Name: "server-old-identity", Why: "a store that lost its data is taken for the one that clients know",
			File: "server/server.go", Old: "			s.identity.Store(&id)\n		}\n		s.inspected", New: "		}\n		s.inspected",
			Pkg: "server", Test: "TestServer_identity_changes",
		},
		{
			Name: "server-undoing-store", Why: "a store that undoes its grants frees a claim that its owner was granted through another server",
			File: "server/server.go", Old: "	case !f.AnyServer:\n", New: "	case false:\n",
			Pkg: "server", Test: "TestNew_refuses",
		},
		{
			Name: "server-drains-and-grants", Why: "a server that is about to end grants claims",
			File: "server/store.go", Old: "	if s.drained.Err() != nil {\n		return nil, draining()\n	}\n	ctx, cancel", New: "	ctx, cancel",
			Pkg: "server", Test: "TestServer_Drain",
		},
		{
			Name: "server-keeps-stalled-watchers", Why: "clients that do not receive use up the server",
			File: "server/server.go", Old: ", WriteByteTimeout: writeLimit", New: "",
			Pkg: "server", Test: "TestServer_stalled_watcher",
		},
		{
			Name: "server-keeps-stalled-streams", Why: "a client that does not receive its stream, on a connection that works, is never cut off",
			File: "server/watch.go", Old: "			st.control.cut()\n", New: "",
			Pkg: "server", Test: "TestServer_stalled_stream",
		},
		{
			Name: "server-waits-for-slow-messages", Why: "clients that send a message slowly use up the server",
			File: "server/server.go", Old: "	_ = control.SetReadDeadline(time.Now().Add(bodyLimit))\n", New: "",
			Pkg: "server", Test: "TestServer_slow",
		},
		{
			Name: "server-ends-idle-streams", Why: "every waiter is woken for nothing, ten seconds after the last message of its process",
			File: "server/watch.go", Old: "	st.control.idle()\n", New: "",
			Pkg: pkg, Test: "TestStore_Watch_idle",
		},
		{
			Name: "serve-local-holders", Why: "a reboot of the server's host frees the locks of holders that live",
			File: "cmd/distlock/serve.go", Old: "			url += sep + \"holders=remote\"", New: "			url += sep + \"synchronous=full\"",
			Pkg: "cmd/distlock", Test: "TestServe_check",
		},
		{
			Name: "serve-two-files", Why: "two servers with two files behind one address are two sets of locks",
			File: "cmd/distlock/serve.go", Old: "	if s.embedded && !s.only {\n", New: "	if false {\n",
			Pkg: "cmd/distlock", Test: "TestServe_check",
		},
		{
			Name: "server-proxied", Why: "a proxy on the host makes every client one of this host",
			File: "server/caller.go", Old: "name != \"Via\" && ", New: "",
			Pkg: "server", Test: "TestServer_Local",
		},
		{
			Name: "server-rebound-host", Why: "a page in a browser breaks locks through a name for 127.0.0.1",
			File: "server/caller.go", Old: "own := host == \"localhost\" || ", New: "own := host != \"\" || ",
			Pkg: "server", Test: "TestServer_Local",
		},
		{
			Name: "message-unknown-is-definite", Why: "an unknown outcome is taken for a call that changed nothing",
			File: "internal/message/reason.go", Old: "	{api.Reason_KIND_DRAINING, driver.ErrUnavailable},\n",
			New: "	{api.Reason_KIND_DRAINING, driver.ErrUnavailable},\n	{api.Reason_KIND_UNKNOWN, driver.ErrUnavailable},\n",
			Pkg: "internal/message", Test: "TestReason",
		},
		{
			Name: "message-value-removed", Why: "a renewal without a value removes the value",
			File: "internal/message/message.go", Old: "Value: m.GetValue(), Keep: m.GetKeep()}", New: "Value: append([]byte{}, m.GetValue()...), Keep: m.GetKeep()}",
			Pkg: "internal/message", Test: "TestRenewal_value",
		},
		{
			Name: "remote-proxy-answers", Why: "an empty answer of a proxy is taken for a refusal, and for a release",
			File: client + "server.go", Old: "		err = fmt.Errorf(\"%s is no lock server", New: "		_ = fmt.Errorf(\"%s is no lock server",
			Pkg: pkg, Test: "TestStore_proxy",
		},
		{
			Name: "remote-no-answer-is-definite", Why: "a call without an answer is taken for one that changed nothing",
			File: client + "remote.go", Old: "		return fmt.Errorf(\"remote: no answer of a lock server: %s\", answer.Message())\n", New: "		return driver.ErrUnavailable\n",
			Pkg: pkg, Test: "TestStore_proxy",
		},
		{
			Name: "remote-takes-the-new-store-at-once", Why: "a client is granted a lock of a second store while it holds one of the first",
			File: client + "identity.go", Old: " && now.Sub(i.met) > i.longest {", New: " {",
			Pkg: pkg, Test: "TestStore_replaced",
		},
		{
			Name: "remote-forgets-its-pin", Why: "a client with store_id takes another store",
			File: client + "identity.go", Old: "	if !i.pinned && sent == i.id", New: "	if sent == i.id",
			Pkg: pkg, Test: "TestStore_replaced",
		},
		{
			Name: "remote-hides-its-store", Why: "a server with another store grants what is held",
			File: client + "server.go", Old: "	if sent != \"\" {\n		r.Header.Set(message.StoreHeader, sent)\n	}\n", New: "",
			Pkg: pkg, Test: "TestStore_other_store",
		},
		{
			Name: "remote-watches-stay", Why: "waiters are not woken after their process changed to another server",
			File: client + "server.go", Old: "		s.watcher.move()\n", New: "",
			Pkg: pkg, Test: "TestStore_Watch_follows",
		},
		{
			Name: "remote-lost-stream-is-silent", Why: "a waiter whose wake-up was lost with its stream is not woken",
			File: client + "watch.go", Old: "	if o.active {\n		o.wake(driver.Wake{})\n		return\n	}\n", New: "	if o.active {\n		return\n	}\n",
			Pkg: pkg, Test: "TestStore_Watch_again",
		},
		{
			Name: "remote-opens-at-one-server", Why: "a server that does not answer keeps new clients from the other one",
			File: client + "remote.go", Old: "		if err == nil || ctx.Err() != nil {\n			break\n", New: "		if err == nil || limited.Err() != nil {\n			break\n",
			Pkg: pkg, Test: "TestOpen_silent",
		},
		{
			Name: "remote-forgets-pushed-grants", Why: "a client takes another store while a pushed grant of the old one is trusted",
			File: client + "remote.go", Old: "s.identity.uses(max(r.TTL, r.QueueTTL))", New: "s.identity.uses(r.TTL)",
			Pkg: pkg, Test: "TestStore_replaced_queue",
		},
		{
			Name: "remote-stays-with-another-store", Why: "a server with another store keeps a client from the right one, and its leases are lost",
			File: client + "remote.go", Old: " && kind != api.Reason_KIND_OTHER_STORE", New: "",
			Pkg: pkg, Test: "TestStore_other_store_back",
		},
		{
			Name: "remote-keeps-dead-connections", Why: "renewals are lost one after another in connections that the network has forgotten",
			File: client + "server.go", Old: "		v.transport(r.URL.Path).CloseIdleConnections()\n", New: "",
			Pkg: pkg, Test: "TestStore_lost_connections",
		},
		{
			Name: "remote-grant-without-fence", Why: "a part of an answer is taken for a grant, and its lease has no fence",
			File: client + "remote.go", Old: "m.GetGranted() && m.GetFence() == 0 && s.features.Fence", New: "false",
			Pkg: pkg, Test: "TestStore_proxy",
		},
		{
			Name: "remote-odd-refusal", Why: "a refusal that a proxy changed ends the program",
			File: client + "remote.go", Old: " && other != nil:\n		return other\n", New: ":\n		return other\n",
			Pkg: pkg, Test: "TestStore_odd_refusal",
		},
		{
			Name: "serve-holders-in-path", Why: "a folder with the name of an option makes a reboot free the locks of holders that live",
			File: "cmd/distlock/serve.go", Old: "!strings.Contains(query, \"holders=\")", New: "!strings.Contains(query+rest, \"holders=\")",
			Pkg: "cmd/distlock", Test: "TestServe_check",
		},
		{
			Name: "remote-stays-with-a-dead-server", Why: "a client of two servers stops when one of them ends",
			File: client + "server.go", Old: "		if left == 0 || !rewound(r, err) {\n", New: "		if left >= 0 {\n",
			Pkg: pkg, Test: "TestStore_next_server",
		},
		{
			Name: "remote-closed-connection", Why: "the first call after a server was started again fails, although nothing was wrong",
			File: client + "quiet_unix.go", Old: "	return err == nil && yes\n", New: "	return err == nil || yes\n",
			Pkg: pkg, Test: "TestStore_connections",
		},
		{
			Name: "remote-second-answer", Why: "what a server sent too much is the answer to the next call",
			File: client + "direct.go", Old: " || c.reader.Buffered() > 0:", New: ":",
			Pkg: pkg, Test: "TestDirect_answers",
		},
		{
			Name: "remote-long-answer", Why: "a part of an answer is taken for all of it",
			File: client + "direct.go", Old: "	if c.limit.N == 0 { ", New: "	if c.limit.N < 0 { ",
			Pkg: pkg, Test: "TestDirect_answers",
		},
		{
			Name: "remote-two-writes", Why: "a server wakes up twice for each call: for its header, and for its message",
			File: client + "direct.go", Old: "	err := r.Write(&c.text)\n", New: "	err := r.Write(c.Conn)\n",
			Pkg: pkg, Test: "TestDirect_one_write",
		},
		{
			Name: "remote-no-limit", Why: "a call to a server that is silent never ends",
			File: client + "direct.go", Old: "			if err == nil {\n				c.until(end)\n			}\n", New: "",
			Pkg: pkg, Test: "TestDirect_limit",
		},
		{
			Name: "remote-old-limit", Why: "a connection ends eleven seconds after its first call, in the middle of a later one",
			File: client + "direct.go", Old: "		c.until(end) // first", New: "		// first",
			Pkg: pkg, Test: "TestDirect_limit_later",
		},
		{
			Name: "remote-release-overtakes", Why: "a release overtakes the attempt that it undoes, and the claim stays for its TTL",
			File: client + "batcher.go", Old: "	b.left = append(b.left, h)\n", New: "",
			Pkg: pkg, Test: "TestBatcher_leave",
		},
		{
			Name: "remote-slow-calls-hold-others", Why: "calls of other keys wait for those of a key that somebody has locked",
			File: client + "batcher.go", Old: "time.Since(b.queue[0].began) >= maxHeld {", New: "time.Since(b.queue[0].began) < 0 {",
			Pkg: pkg, Test: "TestBatcher_slow",
		},
		{
			Name: "remote-leaves-others", Why: "the caller that leaves first ends the calls of others",
			File: client + "batcher.go", Old: "h.trip.callers--; h.trip.callers == 0 {", New: "h.trip.callers--; h.trip.callers >= 0 {",
			Pkg: pkg, Test: "TestBatcher_leave",
		},
		{
			Name: "remote-answers-of-others", Why: "a call without an answer gets that of another one",
			File: client + "together.go", Old: "	if err == nil && len(ms) != n {\n", New: "	if err == nil && len(ms) < n {\n",
			Pkg: pkg, Test: "TestSplit",
		},
		{
			Name: "server-rate-of-one-message", Why: "a client evades its rate by sending calls together",
			File: "server/store.go", Old: "		err := s.op.quota.call(ctx, keep)\n", New: "		var err error\n",
			Pkg: "server", Test: "TestServer_together_rate",
		},
		{
			Name: "server-releases-as-calls", Why: "releases wait behind the rate of other calls, if they are sent together",
			File: "server/operations.go", Old: " || strings.HasSuffix(path, \"/ReleaseAll\")", New: "",
			Pkg: "server", Test: "TestServer_together_rate",
		},
		{
			Name: "server-waits-for-slow-streams", Why: "clients that send a message slowly by HTTP/2 use up the server",
			File: "server/server.go", Old: "		ReadTimeout: bodyLimit, WriteTimeout: answerLimit,", New: "		ReadTimeout: time.Hour, WriteTimeout: answerLimit,",
			Pkg: "server", Test: "TestServer_slow",
		},
	}
}
